// Init is the first process of a guest (package guest).
package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/internal/testing/guest"
)

func main() {
	status := 125
	if err := begin(); err != nil {
		fmt.Println("guest:", err)
	} else {
		status = run()
	}
	fmt.Printf("%s%d\n", guest.Over, status)
	unix.Sync()
	unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

var plan guest.Plan

func begin() error {
	text, err := os.ReadFile("/plan.json")
	if err == nil {
		err = json.Unmarshal(text, &plan)
	}
	if err != nil {
		return err
	}
	for _, m := range [][2]string{{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/tmp"}, {"tmpfs", "/run"}, {"tmpfs", "/dev/shm"}} {
		if err := os.MkdirAll(m[1], 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m[0], m[1], m[0], 0, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m[1], err)
		}
	}
	for _, path := range plan.Modules {
		if err := load(path); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	if plan.Folder {
		if err := share(); err != nil {
			return fmt.Errorf("the shared folder: %w", err)
		}
	}
	for name, address := range map[string]string{"lo": "127.0.0.1", "eth0": plan.Address} {
		if err := up(name, netip.MustParseAddr(address).As4()); err != nil && (name == "lo" || plan.Soft != "") {
			return fmt.Errorf("network %s: %w", name, err)
		}
	}
	if plan.Soft != "" {
		return soft(plan.Soft, "eth0")
	}
	return nil
}

// share mounts the folder that the guest shares. Nothing is kept of it here, so that all see what one has written.
func share() error {
	if err := os.MkdirAll(guest.Folder, 0o755); err != nil {
		return err
	}
	return unix.Mount(guest.FolderTag, guest.Folder, "9p", 0, "trans=virtio,version=9p2000.L,msize=262144,cache=none,access=any")
}

// load loads a module of the kernel.
func load(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), "", 0); !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}

// up gives a network its address and starts it.
func up(name string, address [4]byte) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	r, err := unix.NewIfreq(name)
	if err == nil {
		err = r.SetInet4Addr(address[:])
	}
	if err == nil {
		err = unix.IoctlIfreq(fd, unix.SIOCSIFADDR, r)
	}
	if err == nil {
		r, _ = unix.NewIfreq(name)
		r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
		err = unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, r)
	}
	return err
}

// Numbers of rdma/rdma_netlink.h.
const (
	nlRDMA       = 20
	newLink      = 5<<10 | 3 // RDMA_NL_NLDEV, RDMA_NLDEV_CMD_NEWLINK
	attrDevName  = 2
	attrNdevName = 51
	attrLinkType = 65
)

// soft makes a soft-RoCE device over a network, as `rdma link add NAME type rxe netdev NETWORK` does.
func soft(name, network string) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, nlRDMA)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var body []byte
	for _, a := range []struct {
		kind uint16
		text string
	}{{attrDevName, name}, {attrLinkType, "rxe"}, {attrNdevName, network}} {
		body = binary.NativeEndian.AppendUint16(body, uint16(4+len(a.text)+1))
		body = binary.NativeEndian.AppendUint16(body, a.kind)
		body = append(append(body, a.text...), 0)
		body = append(body, make([]byte, -len(body)&3)...)
	}
	h := unix.NlMsghdr{Len: uint32(unix.NLMSG_HDRLEN + len(body)), Type: newLink, Flags: unix.NLM_F_REQUEST | unix.NLM_F_ACK, Seq: 1}
	msg := append(unsafe.Slice((*byte)(unsafe.Pointer(&h)), unix.NLMSG_HDRLEN), body...)
	if err := unix.Sendto(fd, msg, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil || n < unix.NLMSG_HDRLEN+4 {
		return fmt.Errorf("%d bytes: %w", n, err)
	}
	if code := int32(binary.NativeEndian.Uint32(answer[unix.NLMSG_HDRLEN:])); code != 0 {
		return fmt.Errorf("soft-RoCE over %s: %w", network, unix.Errno(-code))
	}
	return settled(name)
}

// settled waits until the device's port is active and has the network's address.
func settled(name string) error {
	port := "/sys/class/infiniband/" + name + "/ports/1/"
	for range 1000 {
		state, _ := os.ReadFile(port + "state")
		for i := range 8 {
			gid, _ := os.ReadFile(fmt.Sprintf("%sgids/%d", port, i))
			if strings.HasPrefix(string(gid), "0000:0000:0000:0000:0000:ffff:") && strings.Contains(string(state), "ACTIVE") {
				return nil
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	return errors.New("the device's port does not get active")
}

// run runs the program.
func run() int {
	cmd := exec.Command(plan.Program, plan.Args...)
	cmd.Env = append([]string{"PATH=/bin:/usr/bin", "HOME=/tmp", "TMPDIR=/tmp"}, plan.Env...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = "/tmp", nil, os.Stdout, os.Stdout
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return max(exit.ExitCode(), 1)
	case err != nil:
		fmt.Println("guest:", err)
		return 126
	}
	return 0
}
