package ofi

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"
)

// fields has what the constants are in C.
var fields = []struct {
	c    string
	want uintptr
}{
	{"offsetof(struct fid, ops)", fidOps}, {"offsetof(struct fid_fabric, ops)", objectOps}, {"offsetof(struct fid_domain, ops)", objectOps},
	{"offsetof(struct fid_av, ops)", objectOps}, {"offsetof(struct fid_cq, ops)", objectOps}, {"offsetof(struct fid_domain, mr)", domainMR},
	{"offsetof(struct fid_ep, cm)", endpointCM}, {"offsetof(struct fid_ep, msg)", endpointOf}, {"offsetof(struct fid_ep, rma)", endpointRM},
	{"offsetof(struct fid_mr, mem_desc)", mrDesc}, {"offsetof(struct fid_mr, key)", mrKey},
	{"offsetof(struct fi_ops, close)", callClose.entry}, {"offsetof(struct fi_ops, bind)", callBind.entry}, {"offsetof(struct fi_ops, control)", callControl.entry},
	{"offsetof(struct fi_ops_fabric, domain)", callDomain.entry}, {"offsetof(struct fi_ops_fabric, trywait)", callTryWait.entry},
	{"offsetof(struct fi_ops_domain, av_open)", callAV.entry}, {"offsetof(struct fi_ops_domain, cq_open)", callCQ.entry},
	{"offsetof(struct fi_ops_domain, endpoint)", callEndpoint.entry}, {"offsetof(struct fi_ops_mr, reg)", callRegister.entry},
	{"offsetof(struct fi_ops_av, insert)", callInsert.entry}, {"offsetof(struct fi_ops_av, remove)", callRemove.entry},
	{"offsetof(struct fi_ops_cq, read)", callCQRead.entry}, {"offsetof(struct fi_ops_cq, readerr)", callCQError.entry},
	{"offsetof(struct fi_ops_cm, getname)", callGetName.entry}, {"offsetof(struct fi_ops_msg, recv)", callReceive.entry},
	{"offsetof(struct fi_ops_msg, send)", callSend.entry}, {"offsetof(struct fi_ops_msg, inject)", callInject.entry}, {"offsetof(struct fi_ops_rma, read)", callRMARead.entry},
	{"offsetof(struct fi_info, next)", infoNext}, {"offsetof(struct fi_info, caps)", infoCaps}, {"offsetof(struct fi_info, mode)", infoMode},
	{"offsetof(struct fi_info, addr_format)", infoAddrFormat}, {"offsetof(struct fi_info, src_addrlen)", infoSrcLen}, {"offsetof(struct fi_info, src_addr)", infoSrc},
	{"offsetof(struct fi_info, tx_attr)", infoTx}, {"offsetof(struct fi_info, rx_attr)", infoRx}, {"offsetof(struct fi_info, ep_attr)", infoEP},
	{"offsetof(struct fi_info, domain_attr)", infoDomain}, {"offsetof(struct fi_info, fabric_attr)", infoFabric},
	{"offsetof(struct fi_tx_attr, msg_order)", txOrder}, {"offsetof(struct fi_tx_attr, inject_size)", txInject}, {"offsetof(struct fi_tx_attr, size)", txSize},
	{"offsetof(struct fi_rx_attr, msg_order)", rxOrder}, {"offsetof(struct fi_rx_attr, size)", rxSize},
	{"offsetof(struct fi_ep_attr, type)", epType}, {"offsetof(struct fi_ep_attr, max_msg_size)", epMax},
	{"offsetof(struct fi_domain_attr, name)", domainName}, {"offsetof(struct fi_domain_attr, threading)", domainThreading},
	{"offsetof(struct fi_domain_attr, control_progress)", domainControl}, {"offsetof(struct fi_domain_attr, data_progress)", domainData},
	{"offsetof(struct fi_domain_attr, mr_mode)", domainMRMode}, {"offsetof(struct fi_domain_attr, mr_key_size)", domainKeySize},
	{"offsetof(struct fi_fabric_attr, name)", fabricName}, {"offsetof(struct fi_fabric_attr, prov_name)", fabricProvider}, {"offsetof(struct fi_fabric_attr, prov_version)", fabricVersion},
	{"offsetof(struct fi_av_attr, count)", unsafe.Offsetof(avAttr{}.count)}, {"sizeof(struct fi_av_attr)", unsafe.Sizeof(avAttr{})},
	{"offsetof(struct fi_cq_attr, wait_obj)", unsafe.Offsetof(cqAttr{}.waitObject)}, {"sizeof(struct fi_cq_attr)", unsafe.Sizeof(cqAttr{})},
	{"sizeof(struct fi_cq_msg_entry)", unsafe.Sizeof(cqEntry{})}, {"sizeof(struct fi_cq_err_entry)", unsafe.Sizeof(cqError{})},
	{"offsetof(struct fi_cq_err_entry, err)", unsafe.Offsetof(cqError{}.err)}, {"sizeof(struct fi_context2)", contextSize},
	{"FI_MSG", capMsg}, {"FI_RMA", capRMA}, {"FI_READ", fiRead}, {"FI_WRITE", fiWrite}, {"FI_RECV", fiRecv}, {"FI_SEND", fiSend}, {"FI_REMOTE_READ", fiRemRead},
	{"FI_CONTEXT", modeContext}, {"FI_CONTEXT2", modeContext2}, {"FI_MR_LOCAL", mrLocal}, {"FI_MR_VIRT_ADDR", mrVirtual}, {"FI_MR_ALLOCATED", mrAllocated},
	{"FI_MR_PROV_KEY", mrProvKey}, {"FI_ORDER_SAS", orderSAS}, {"FI_EP_RDM", typeRDM}, {"FI_THREAD_DOMAIN", threadDomain}, {"FI_PROGRESS_MANUAL", progressManual},
	{"FI_AV_TABLE", avTable}, {"FI_CQ_FORMAT_MSG", formatMsg}, {"FI_WAIT_NONE", waitNone}, {"FI_WAIT_FD", waitFD}, {"FI_GETWAIT", controlGetWait},
	{"FI_ENABLE", controlEnable}, {"FI_SOURCE", flagSource}, {"FI_EAGAIN", eAgain}, {"FI_EAVAIL", eAvail},
}

// TestABI compares the constants with the headers, where those and a C compiler are installed.
func TestABI(t *testing.T) {
	cc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no gcc")
	}
	var b strings.Builder
	b.WriteString("#include <stddef.h>\n#include <rdma/fabric.h>\n#include <rdma/fi_endpoint.h>\n#include <rdma/fi_domain.h>\n#include <rdma/fi_cm.h>\n#include <rdma/fi_rma.h>\n#include <rdma/fi_eq.h>\n#include <rdma/fi_errno.h>\n")
	for _, f := range fields {
		fmt.Fprintf(&b, "_Static_assert((unsigned long long)(%s) == %dULL, \"%s\");\n", f.c, uint64(f.want), f.c)
	}
	file := filepath.Join(t.TempDir(), "abi.c")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(cc, "-fsyntax-only", file).CombinedOutput()
	if strings.Contains(string(out), "No such file") {
		t.Skip("no headers of libfabric (Debian: libfabric-dev)")
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
