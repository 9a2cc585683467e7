package protect

import (
	"errors"
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

func TestSlurmRacks(t *testing.T) {
	text := `SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[0-1]
SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n2
SwitchName=top Level=1 LinkSpeed=1 Nodes=n[0-2] Switches=s[0-1]
`
	expand := func(list string) ([]string, error) {
		if list == "n[0-1]" {
			return []string{"n0", "n1"}, nil
		}
		return []string{list}, nil
	}
	got, err := SlurmRacks(text, expand)
	if want := map[string]string{"n0": "s0", "n1": "s0", "n2": "s1"}; err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := SlurmRacks("No topology information available\n", expand); err == nil || !strings.Contains(err.Error(), "-racks") {
		t.Errorf("no topology: %v", err)
	}
	if _, err := SlurmRacks(text, func(string) ([]string, error) { return nil, errors.New("no scontrol") }); err == nil || !strings.Contains(err.Error(), "switch s0: no scontrol") {
		t.Errorf("expand fails: %v", err)
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
