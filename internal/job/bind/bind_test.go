package bind

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"pgregory.net/rapid"
)

// machine is a made-up one: its CPUs by the socket, memory node and core they are of.
type machine struct {
	sockets, numaPer, coresPer, threads int  // coresPer memory node
	apart                               bool // CPU n and n+half are of one core, as on Intel's; else n and n+1
	old                                 bool // the kernel has no core_cpus_list
	flat                                bool // the kernel has no memory nodes
}

// tree is what its kernel tells.
func (m machine) tree() fstest.MapFS {
	sys := fstest.MapFS{}
	file := func(name string, text any) { sys[name] = &fstest.MapFile{Data: fmt.Append(nil, text, "\n")} }
	cores := m.sockets * m.numaPer * m.coresPer
	file("cpu/online", fmt.Sprint("0-", cores*m.threads-1))
	file("cpu/possible", "0-8191")
	numa := make([]Set, m.sockets*m.numaPer)
	for c := range cores {
		var siblings Set
		for k := range m.threads {
			if m.apart {
				siblings = siblings.with(c + k*cores)
			} else {
				siblings = siblings.with(c*m.threads + k)
			}
		}
		for _, n := range siblings.All() {
			dir := fmt.Sprintf("cpu/cpu%d/topology/", n)
			name := "core_cpus_list"
			if m.old {
				name = "thread_siblings_list"
			}
			file(dir+name, siblings)
			file(dir+"physical_package_id", c/(m.numaPer*m.coresPer))
			file(dir+"core_id", c%m.coresPer)
			numa[c/m.coresPer] = numa[c/m.coresPer].with(n)
		}
	}
	if !m.flat {
		for i, s := range numa {
			file(fmt.Sprintf("node/node%d/cpulist", i), s)
		}
		file("node/online", fmt.Sprint("0-", len(numa)-1))
	}
	return sys
}

func parse(t *testing.T, list string) Set {
	t.Helper()
	s, err := Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// show writes masks in one line.
func show(masks []Set) string {
	var all []string
	for _, s := range masks {
		all = append(all, s.String())
	}
	return strings.Join(all, " ")
}

func TestMasks(t *testing.T) {
	intel := machine{sockets: 2, numaPer: 1, coresPer: 4, threads: 2, apart: true} // 0-3,8-11 and 4-7,12-15
	epyc := machine{sockets: 1, numaPer: 2, coresPer: 2, threads: 2}               // 0-3 and 4-7 are memory nodes
	vm := machine{sockets: 4, numaPer: 1, coresPer: 1, threads: 1, old: true, flat: true}
	for _, c := range []struct {
		m    machine
		may  string
		rule Rule
		n    int
		want string
	}{
		{intel, "0-15", Rule{Unit: Core}, 3, "0,8 1,9 2,10"},
		{intel, "0-15", Rule{Unit: Core, BySocket: true}, 3, "0,8 4,12 1,9"},
		{intel, "0-15", Rule{Unit: Core, Before: 4}, 2, "4,12 5,13"},
		{intel, "0-15", Rule{Unit: Socket}, 5, "0-3,8-11 0-3,8-11 0-3,8-11 0-3,8-11 4-7,12-15"},
		{intel, "0-15", Rule{Unit: Socket, BySocket: true}, 3, "0-3,8-11 4-7,12-15 0-3,8-11"},
		{intel, "0-15", Rule{Unit: Socket}, 9, "0-3,8-11 0-3,8-11 0-3,8-11 0-3,8-11 4-7,12-15 4-7,12-15 4-7,12-15 4-7,12-15 0-3,8-11"},
		{intel, "3-4,8", Rule{Unit: Core}, 3, "3 8 4"},
		{intel, "3-4,8", Rule{Unit: Socket}, 3, "3,8 3,8 4"},
		{intel, "3-4,8", Rule{Unit: Core, BySocket: true}, 3, "3 4 8"},
		{epyc, "0-7", Rule{Unit: Core}, 4, "0-1 2-3 4-5 6-7"},
		{epyc, "0-7", Rule{Unit: NUMA}, 4, "0-3 0-3 4-7 4-7"},
		{epyc, "0-7", Rule{Unit: Socket}, 1, "0-7"},
		{epyc, "1-5", Rule{Unit: NUMA}, 3, "1-3 1-3 4-5"},
		{vm, "0-3", Rule{Unit: Core}, 4, "0 1 2 3"},
		{vm, "0-3", Rule{Unit: NUMA}, 1, "0-3"},
		{vm, "0-9", Rule{Unit: Core}, 1, "0"}, // CPUs that are not there do not count
	} {
		top, err := Read(c.m.tree(), parse(t, c.may))
		if err != nil {
			t.Error(err)
			continue
		}
		masks, err := top.Masks(c.rule, c.n)
		if got := show(masks); err != nil || got != c.want {
			t.Errorf("%d ranks, %+v, CPUs %s: %s, %v; want %s", c.n, c.rule, c.may, got, err, c.want)
		}
	}
	top, err := Read(intel.tree(), parse(t, "0-1,8"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = top.Masks(Rule{Unit: Core, Before: 1}, 2)
	want := "too few cores: -bind core, 3 ranks on this machine and 2 cores that gorun may use: CPUs 0-1,8 of 16 "
	if !errors.Is(err, ErrCores) || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("3 ranks on 2 cores: %v", err)
	}
}

// TestOrder: cores are in the order of sockets, whatever their numbers.
func TestOrder(t *testing.T) {
	sys := machine{sockets: 2, numaPer: 1, coresPer: 2, threads: 1}.tree()
	for cpu, socket := range []string{"1", "0", "1", "-1"} {
		sys[fmt.Sprintf("cpu/cpu%d/topology/physical_package_id", cpu)].Data = []byte(socket + "\n")
	}
	top, err := Read(sys, Of(0, 1, 2, 3))
	if err != nil {
		t.Fatal(err)
	}
	masks, err := top.Masks(Rule{Unit: Core}, 4)
	if got := show(masks); err != nil || got != "3 1 0 2" {
		t.Errorf("%s, %v", got, err)
	}
}

func TestReadRefuses(t *testing.T) {
	for _, c := range []struct {
		name, file, text, want string
	}{
		{"no file", "cpu/online", "", "open cpu/online"},
		{"bad list", "cpu/online", "0-x", `cpu/online: list of CPUs "0-x"`},
		{"no topology", "cpu/cpu0/topology/core_cpus_list", "", "thread_siblings_list"},
		{"strange core", "cpu/cpu0/topology/core_cpus_list", "1", "CPU 0 is not among those of its core, 1"},
		{"no socket", "cpu/cpu0/topology/physical_package_id", "", "physical_package_id"},
		{"strange socket", "cpu/cpu0/topology/physical_package_id", "x", "cpu/cpu0/topology/physical_package_id: "},
		{"strange node", "node/node0/cpulist", "1-", "node/node0/cpulist: list of CPUs"},
		{"offline", "cpu/online", "1", "no CPU of 0 that is allowed is online"},
	} {
		sys := machine{sockets: 1, numaPer: 1, coresPer: 2, threads: 1}.tree()
		if sys[c.file].Data = []byte(c.text); c.text == "" {
			delete(sys, c.file)
		}
		if _, err := Read(sys, Of(0)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %s", c.name, err, c.want)
		}
	}
}

// TestMasksProperties: ranks get allowed CPUs only, no core is taken twice before all are, and sockets
// get equally many as far as they have cores.
func TestMasksProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := machine{
			sockets: rapid.IntRange(1, 3).Draw(t, "sockets"), numaPer: rapid.IntRange(1, 2).Draw(t, "numa"),
			coresPer: rapid.IntRange(1, 4).Draw(t, "cores"), threads: rapid.IntRange(1, 2).Draw(t, "threads"),
			apart: rapid.Bool().Draw(t, "apart"), old: rapid.Bool().Draw(t, "old"), flat: rapid.Bool().Draw(t, "flat"),
		}
		total := m.sockets * m.numaPer * m.coresPer * m.threads
		var may Set
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, total-1), 1, total).Draw(t, "may") {
			may = may.with(n)
		}
		top, err := Read(m.tree(), may)
		if err != nil {
			t.Fatal(err)
		}
		r := Rule{Unit: Core, BySocket: rapid.Bool().Draw(t, "by socket")}
		all, err := top.Masks(r, len(top.cores))
		if err != nil {
			t.Fatal(err)
		}
		var union Set
		for _, s := range all {
			for _, n := range s.All() {
				if union.Has(n) {
					t.Fatalf("CPU %d is given twice: %s", n, show(all))
				}
				union = union.with(n)
			}
		}
		if !union.Equal(may) {
			t.Fatalf("%s of %s are given", union, may)
		}
		if _, err := top.Masks(r, len(top.cores)+1); !errors.Is(err, ErrCores) {
			t.Fatalf("more ranks than cores: %v", err)
		}
		n := rapid.IntRange(1, 2*len(all)).Draw(t, "ranks")
		for _, unit := range []Unit{Socket, NUMA} {
			r.Unit = unit
			masks, err := top.Masks(r, n)
			if err != nil {
				t.Fatal(err)
			}
			for i, s := range masks {
				for _, c := range all[i%len(all)].All() {
					if !s.Has(c) {
						t.Fatalf("rank %d has CPUs %s without its core %s", i, s, all[i%len(all)])
					}
				}
				for _, c := range s.All() {
					if !may.Has(c) {
						t.Fatalf("rank %d may use CPU %d, which is not allowed", i, c)
					}
				}
			}
		}
	})
}

func TestSet(t *testing.T) {
	for in, want := range map[string]string{"": "", "0": "0", "0-3,8\n": "0-3,8", "8,0-3": "0-3,8", "1,2,3": "1-3", "8191": "8191", "7-8": "7-8"} {
		s, err := Parse(in)
		if err != nil || s.String() != want {
			t.Errorf("%q: %s, %v", in, s, err)
		}
	}
	for _, in := range []string{"x", "1-", "-1", "3-2", "8192", "0-9999999999", "1,,2", "0x1"} {
		if s, err := Parse(in); err == nil {
			t.Errorf("%q is taken for %s", in, s)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "0-3,8", "8191", "0-8191", "3-1", "a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(s.String())
		if err != nil || !again.Equal(s) || len(s.All()) != s.Count() {
			t.Fatalf("%q: %s, again %s, %v", text, s, again, err)
		}
	})
}

// TestHere reads this machine and binds a thread on it, and a process that stands still.
func TestHere(t *testing.T) {
	runtime.LockOSThread() // and the thread ends with the test
	may, err := Get(0)
	if err != nil {
		t.Fatal(err)
	}
	top, err := Read(os.DirFS(Sys), may)
	if err != nil {
		t.Skipf("the kernel does not tell here: %v", err)
	}
	masks, err := top.Masks(Rule{Unit: Core}, 1)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	if err := Process(cmd.Process.Pid, masks[0]); err != nil {
		t.Fatal(err)
	}
	if got, err := Get(cmd.Process.Pid); err != nil || !got.Equal(masks[0]) {
		t.Errorf("the process may use %s, %v; want %s", got, err, masks[0])
	}
	if err := Put(0, masks[0]); err != nil {
		t.Fatal(err)
	}
	if got, err := Get(0); err != nil || !got.Equal(masks[0]) {
		t.Errorf("the thread may use %s, %v; want %s", got, err, masks[0])
	}
	if err := Put(0, nil); err == nil {
		t.Error("a thread is bound to no CPU")
	}
}
