package hosts

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// show writes nodes in one line: all that parsers find.
func show(nodes []Node) string {
	var all []string
	for _, n := range nodes {
		s := n.String()
		if n.MaxSlots != 0 {
			s += fmt.Sprint(" max ", n.MaxSlots)
		}
		if n.Addr != "" {
			s += " addr " + n.Addr
		}
		all = append(all, s)
	}
	return strings.Join(all, ", ")
}

func TestParseHosts(t *testing.T) {
	for in, want := range map[string]string{
		"a":                      "a",
		"a:2,b:2":                "a:2, b:2",
		"a, b":                   "a, b",
		"user@a,b:3":             "user@a, b:3",
		"[fd77::1]:2":            "[fd77::1]:2",
		"me@[::1]":               "me@[::1]",
		"[fe80::1%eth0]:4":       "[fe80::1%eth0]:4",
		"10.0.0.3:2":             "10.0.0.3:2",
		"node-1.cluster.local:8": "node-1.cluster.local:8",
		"a,b,a":                  "a:2, b:1",
		"a:2,b:1,a:2":            "a:4, b:1",
	} {
		nodes, err := ParseHosts(in)
		if got := show(nodes); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", in, got, err, want)
		}
	}
	for in, want := range map[string]string{
		"":                       "empty",
		"a,,b":                   "empty",
		"-oProxyCommand=x":       "must not begin with -",
		"-oProxyCommand":         "must not begin with -",
		"-l@a":                   "must not begin with -",
		"@a":                     "name of a user is empty",
		"a b":                    "letters",
		"a;reboot":               "letters",
		"$(reboot)":              "letters",
		"a:0":                    "number from 1",
		"a:-1":                   "number from 1",
		"a:":                     "number from 1",
		"a:x":                    "number from 1",
		"a:99999999999999999999": "number from 1",
		"fe80::1":                "in brackets",
		"[fe80::1]:2":            "name the interface that leads to the node, as in [fe80::1%eth0]",
		"[fe80::1":               "not closed",
		"[fd77::1]2":             "follows the bracket",
		"[a]:2":                  "no IPv6 address",
		"[10.0.0.1]:2":           "no IPv6 address",
		"[fe80::1%-o x]":         "no IPv6 address",
		"me@a,you@a":             `user "you", and "me" before`,
		"a:2,a":                  "with slots and without",
	} {
		nodes, err := ParseHosts(in)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %s, %v; want an error with %q", in, show(nodes), err, want)
		}
	}
}

func TestParseFile(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"plain", "n1\nn2\n", "n1, n2"},
		{"Open MPI", "# my cluster\nn1 slots=4 max_slots=8   # the big one\nn2 slots=2 max-slots=2\n\nn3 slots = 4\n", "n1:4 max 8, n2:2 max 2, n3:4"},
		{"mpi-operator", "pi-worker-0.pi.default.svc slots=1\npi-worker-1.pi.default.svc slots=1\n", "pi-worker-0.pi.default.svc:1, pi-worker-1.pi.default.svc:1"},
		{"MPICH", "donner:4\r\nfoo:4\r\nshakey:2\r\n", "donner:4, foo:4, shakey:2"},
		{"PBS", "c1\nc1\nc1\nc2\n", "c1:3, c2:1"},
		{"users", "me@n1:2\nn2 slots=2 user=you\nn3 username=she\n", "me@n1:2, you@n2:2, she@n3"},
		{"addresses", "n1 addr=10.0.0.3\nn2:4 addr=fd00::2\n", "n1 addr 10.0.0.3, n2:4 addr fd00::2"},
		{"IPv6", "[fe80::1%eth0]:2 addr=fe80::1%eth0\n", "[fe80::1%eth0]:2 addr fe80::1%eth0"},
		{"last line without end", "n1:2", "n1:2"},
	} {
		nodes, err := ParseFile(strings.NewReader(c.in), "hosts")
		if got := show(nodes); err != nil || got != c.want {
			t.Errorf("%s: %s, %v; want %s", c.name, got, err, c.want)
		}
	}
	for _, c := range []struct{ in, want string }{
		{"", "hosts: no node is named"},
		{"# nothing\n", "hosts: no node is named"},
		{"n1\n-oProxyCommand=x\n", "hosts:2: "},
		{"n1 slots=0", `hosts:1: n1: slots "0": want a number from 1`},
		{"n1 slots=4 max_slots=2", "hosts: node n1 has 4 slots and max_slots 2"},
		{"n1 max_slots=x", `hosts:1: n1: max_slots "x"`},
		{"n1:2 slots=3", "hosts:1: n1: slots are given twice, 2 and 3"},
		{"n1 slots", `hosts:1: "slots" after node n1: write key=value`},
		{"n1 n2", `hosts:1: "n2" after node n1: write key=value`},
		{"n1 sockets=2", "hosts:1: n1: sockets=2 is not known; known are slots"},
		{"n1 addr=n2", "hosts:1: n1: addr=n2 is no IP address"},
		{"n1 user=-x", "hosts:1: user \"-x\": a name must not begin with -"},
		{"me@n1 user=you", "hosts:1: n1: the user is given twice"},
		{"\n\nn1 addr=::1\nn1 addr=::2", `hosts:4: node n1 has addr "::2", and "::1" before`},
		{"n1 slots=2 max_slots=4\nn1 slots=2 max_slots=6", "hosts:2: node n1 has max_slots 6, and 4 before"},
		{"n1\nn1:2", "hosts:2: node n1 is there with slots and without"},
		{"n1:1048576\nn1:1048576", "hosts:2: node n1 has more than"},
		{"n1\n" + strings.Repeat("x", 1<<17), "hosts:2: the line is too long"},
	} {
		nodes, err := ParseFile(strings.NewReader(c.in), "hosts")
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%.40q: %s, %v; want %s", c.in, show(nodes), err, c.want)
		}
	}
}

// surroundings are what FromEnv asks for.
type surroundings struct {
	env   map[string]string
	files map[string]string
	runs  map[string]string // command line: output
}

func (s *surroundings) find() ([]Node, string, error) {
	return FromEnv(func(name string) string { return s.env[name] },
		func(name string) ([]byte, error) {
			if text, ok := s.files[name]; ok {
				return []byte(text), nil
			}
			return nil, &os.PathError{Op: "open", Path: name, Err: os.ErrNotExist}
		},
		func(name string, args ...string) ([]byte, error) {
			if out, ok := s.runs[strings.Join(append([]string{name}, args...), " ")]; ok {
				return []byte(out), nil
			}
			return nil, errors.New("exit status 1")
		})
}

// slurm is an allocation as sbatch -N 3 -n 12 tells of it.
func slurm(more ...string) *surroundings {
	s := &surroundings{env: map[string]string{
		"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-3]", "SLURM_NTASKS": "12",
		"SLURM_TASKS_PER_NODE": "10,1(x2)", "SLURM_JOB_CPUS_PER_NODE": "16(x2),8",
	}, runs: map[string]string{"scontrol show hostnames n[1-3]": "n1\nn2\nn3\n"}}
	for _, kv := range more {
		name, value, _ := strings.Cut(kv, "=")
		s.env[name] = value
	}
	return s
}

func TestFromEnv(t *testing.T) {
	for _, c := range []struct {
		s      *surroundings
		source string
		want   string
	}{
		{&surroundings{}, "", ""},
		{slurm(), SourceSlurm, "n1:10, n2:1, n3:1"},
		{slurm("SLURM_TASKS_PER_NODE="), SourceSlurm, "n1:16, n2:16, n3:8"},
		{slurm("SLURM_NTASKS=", "SLURM_TASKS_PER_NODE=4(x3)"), SourceSlurm, "n1:4, n2:4, n3:4"}, // sbatch -N 3 -c 4 --exclusive
		{slurm("PBS_NODEFILE=/nodes"), SourceSlurm, "n1:10, n2:1, n3:1"},
		{&surroundings{env: map[string]string{"PBS_NODEFILE": "/nodes"}, files: map[string]string{"/nodes": "c1\nc1\nc2\nc2\n"}}, SourcePBS, "c1:2, c2:2"},
		{&surroundings{env: map[string]string{"PBS_NODEFILE": "/nodes"}, files: map[string]string{"/nodes": "c1\nc2\n"}}, SourcePBS, "c1:1, c2:1"},
		{&surroundings{env: map[string]string{"PE_HOSTFILE": "/pe"}, files: map[string]string{"/pe": "node1 4 all.q@node1 UNDEFINED\nnode2 2 all.q@node2 0,0:0,1\nnode1 1 low.q@node1 <NULL>\n"}}, SourceSGE, "node1:5, node2:2"},
		{&surroundings{env: map[string]string{"LSB_MCPU_HOSTS": "hostA 4 hostB 2 "}}, SourceLSF, "hostA:4, hostB:2"},
		{&surroundings{env: map[string]string{"OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile", "HYDRA_HOST_FILE": "/h"}, files: map[string]string{"/etc/mpi/hostfile": "w-0.w slots=2\nw-1.w slots=2\n"}}, SourceOMPI, "w-0.w:2, w-1.w:2"},
		{&surroundings{env: map[string]string{"HYDRA_HOST_FILE": "/h"}, files: map[string]string{"/h": "w-0.w:2\nw-1.w\n"}}, SourceHydra, "w-0.w:2, w-1.w"},
	} {
		nodes, source, err := c.s.find()
		if got := show(nodes); err != nil || got != c.want || source != c.source {
			t.Errorf("%v: %s from %q, %v; want %s from %q", c.s.env, got, source, err, c.want, c.source)
		}
	}
	for _, c := range []struct {
		s    *surroundings
		want string
	}{
		{slurm("SLURM_JOB_NODELIST="), "nodes of Slurm: SLURM_JOB_ID is set and SLURM_JOB_NODELIST is not"},
		{slurm("SLURM_JOB_NODELIST=n9"), "nodes of Slurm: scontrol show hostnames n9: exit status 1"},
		{slurm("SLURM_TASKS_PER_NODE=10,1"), "nodes of Slurm: SLURM_TASKS_PER_NODE=10,1: 2 numbers for 3 nodes"},
		{slurm("SLURM_TASKS_PER_NODE=1(x4)"), "nodes of Slurm: SLURM_TASKS_PER_NODE=1(x4): more numbers than the 3 nodes"},
		{slurm("SLURM_TASKS_PER_NODE=1(x3"), `nodes of Slurm: SLURM_TASKS_PER_NODE=1(x3: "1(x3": want COUNT(xNODES)`},
		{slurm("SLURM_TASKS_PER_NODE=", "SLURM_JOB_CPUS_PER_NODE="), "nodes of Slurm: SLURM_JOB_CPUS_PER_NODE=: "},
		{&surroundings{env: map[string]string{"PBS_NODEFILE": "/gone"}}, "nodes of PBS_NODEFILE: open /gone: "},
		{&surroundings{env: map[string]string{"PE_HOSTFILE": "/pe"}, files: map[string]string{"/pe": "n1\n"}}, "nodes of PE_HOSTFILE: /pe:1: "},
		{&surroundings{env: map[string]string{"LSB_MCPU_HOSTS": "a 1 b"}}, "nodes of LSB_MCPU_HOSTS: "},
		{&surroundings{env: map[string]string{"LSB_MCPU_HOSTS": "-a 1"}}, "nodes of LSB_MCPU_HOSTS: node \"-a\""},
		{&surroundings{env: map[string]string{"LSB_MCPU_HOSTS": "a x"}}, "nodes of LSB_MCPU_HOSTS: a: slots"},
	} {
		nodes, _, err := c.s.find()
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v: %s, %v; want %s", c.s.env, show(nodes), err, c.want)
		}
	}
}

// FuzzParseHosts also checks that ParseHosts reads what String writes.
func FuzzParseHosts(f *testing.F) {
	for _, s := range []string{"a:2,b:2", "user@a,[fe80::1%eth0]:2", "a,a,b", "-x", "[", "a:b:c", "@,"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		nodes, err := ParseHosts(s)
		if err != nil {
			return
		}
		sane(t, nodes)
		var all []string
		for _, n := range nodes {
			all = append(all, n.String())
		}
		again, err := ParseHosts(strings.Join(all, ","))
		if err != nil || show(again) != show(nodes) {
			t.Fatalf("%q is %s, and again %s, %v", s, show(nodes), show(again), err)
		}
	})
}

// sane fails if nodes are what no caller expects.
func sane(t *testing.T, nodes []Node) {
	t.Helper()
	seen := map[string]bool{}
	for _, n := range nodes {
		switch {
		case n.Name == "" || strings.HasPrefix(n.Target(), "-") || strings.ContainsAny(n.Target(), " \t\n'\"`$;&|<>/,"):
			t.Fatalf("node %q", n.Target())
		case n.Slots < 0 || n.Slots > maxSlots || n.SlotsGiven != (n.Slots > 0):
			t.Fatalf("node %q has %d slots, given: %v", n.Name, n.Slots, n.SlotsGiven)
		case seen[n.Name]:
			t.Fatalf("node %q comes twice", n.Name)
		}
		seen[n.Name] = true
	}
	if len(nodes) == 0 {
		t.Fatal("no node and no error")
	}
}

func FuzzParseFile(f *testing.F) {
	for _, s := range []string{"n1 slots=4 max_slots=8 # x\nn2:4\n", "c1\nc1\nc2", "me@n1 user=me addr=::1%lo", "a = b = c", "n1 slots=\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		nodes, err := ParseFile(strings.NewReader(s), "hosts")
		if err == nil {
			sane(t, nodes)
		} else if !strings.HasPrefix(err.Error(), "hosts:") {
			t.Fatalf("an error without its file: %v", err)
		}
	})
}

func FuzzFromEnv(f *testing.F) {
	f.Add("n[1-3]", "n1\nn2\nn3\n", "10,1(x2)", "node1 4 q p", "a 4 b 2")
	f.Add("n1", "n1", "1(x99999999)", "", "a")
	f.Fuzz(func(t *testing.T, list, names, tasks, pe, lsf string) {
		for _, s := range []*surroundings{
			{env: map[string]string{"SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": list, "SLURM_TASKS_PER_NODE": tasks},
				runs: map[string]string{"scontrol show hostnames " + list: names}},
			{env: map[string]string{"PE_HOSTFILE": "/pe"}, files: map[string]string{"/pe": pe}},
			{env: map[string]string{"LSB_MCPU_HOSTS": lsf}},
		} {
			if nodes, source, err := s.find(); err == nil && source != "" {
				sane(t, nodes)
			}
		}
	})
}
