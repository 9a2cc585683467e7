package protect

import (
	"maps"
	"strings"
	"testing"
)

func TestReadRacks(t *testing.T) {
	got, err := ReadRacks(strings.NewReader("# the left row\na b  r1\n\nc r2 # alone\na r1\n"), "racks")
	if want := map[string]string{"a": "r1", "b": "r1", "c": "r2"}; err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for text, want := range map[string]string{"a r1\nb": `racks:2: "b": a line is NODE... RACK`, "a r1\na r2": "racks:2: node a is in rack r1 and in rack r2"} {
		if _, err := ReadRacks(strings.NewReader(text), "racks"); err == nil || err.Error() != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestSlurmRack(t *testing.T) {
	for in, want := range map[[2]string]string{
		{"top.s0.n1", "switch.switch.node"}: "s0", {"s0.n1.cluster", "switch.node"}: "s0", {"b3.n1", "block.node"}: "b3", {"top.s[0-1].n1", "switch.switch.node"}: "s[0-1]",
		{"n1", "node"}: "", {"", ""}: "", {"n1", "switch.node"}: "", {"s0.n1", "node.switch"}: "", {"s0.n1", "switch"}: "",
	} {
		if got := SlurmRack(in[0], in[1]); got != want {
			t.Errorf("%q: rack %q, want %q", in, got, want)
		}
	}
}

func FuzzReadRacks(f *testing.F) {
	f.Add("a b r1\n# c\nc r2")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ReadRacks(strings.NewReader(text), "racks")
		if err != nil {
			return
		}
		for node, rack := range got {
			if node == "" || rack == "" || strings.ContainsAny(node+rack, " \n#") {
				t.Errorf("node %q in rack %q", node, rack)
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add("code:4+2:racks")
	f.Fuzz(func(t *testing.T, s string) {
		by, err := Parse(s)
		if err != nil {
			return
		}
		if again, err := Parse(by.String()); err != nil || again != by {
			t.Errorf("%q is %v, which is %v: %v", s, by, again, err)
		}
	})
}

// FuzzSlurmRack: the rack is a part of what Slurm says of a node, whatever that is.
func FuzzSlurmRack(f *testing.F) {
	f.Add("core.leaf1.n3", "switch.switch.node")
	f.Add("n3", "node")
	f.Add("...", "node.node")
	f.Fuzz(func(t *testing.T, address, pattern string) {
		if rack := SlurmRack(address, pattern); !strings.Contains(address, rack) {
			t.Fatalf("%q of %q", rack, address)
		}
	})
}
