package bind

import (
	"testing"
	"testing/fstest"
)

// FuzzTopology reads what a kernel may say of its CPUs. What comes of it are CPUs that may be used, each in one core.
func FuzzTopology(f *testing.F) {
	f.Add("0-3", "0-1", "0-1", "0", "0", "0-3", "0-3")
	f.Add("0-3", "0-3", "0", "1", "-1", "0", "0,2")
	f.Add("1", "", "2-1", "x", "", "", "0")
	f.Fuzz(func(t *testing.T, online, core0, core1, socket0, socket1, node, may string) {
		allowed, err := Parse(may)
		if err != nil {
			return
		}
		sys := fstest.MapFS{}
		for name, text := range map[string]string{
			"cpu/online": online, "node/node0/cpulist": node,
			"cpu/cpu0/topology/core_cpus_list": core0, "cpu/cpu0/topology/physical_package_id": socket0,
			"cpu/cpu1/topology/thread_siblings_list": core1, "cpu/cpu1/topology/physical_package_id": socket1,
		} {
			sys[name] = &fstest.MapFile{Data: []byte(text + "\n")}
		}
		top, err := Read(sys, allowed)
		if err != nil {
			return
		}
		n := 0
		for _, c := range top.cores {
			for _, cpu := range c.cpus.All() {
				if n++; !allowed.Has(cpu) {
					t.Fatalf("CPU %d is not of %s", cpu, allowed)
				}
			}
		}
		if n != top.may.Count() || n == 0 {
			t.Fatalf("%d CPUs in cores, %d of %s", n, top.may.Count(), allowed)
		}
	})
}
