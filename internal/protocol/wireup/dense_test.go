package wireup

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// dense is what Head is to decide, written down pair by pair.
type dense struct {
	size        int
	order       []string
	open        map[string][]bool
	why, denied map[string]map[[2]int]string
	left        []bool
	fresh       map[string]bool
}

func (d *dense) reaches(name string, a, b int) bool {
	return d.open[name][a] && d.open[name][b] && d.why[name][[2]int{a, b}] == ""
}

func (d *dense) route(a, b int) string {
	for _, name := range d.order {
		if d.reaches(name, a, b) && d.reaches(name, b, a) {
			return name
		}
	}
	return ""
}

// forgo is, by transport, the pairs of which the first is to forgo the second.
func (d *dense) forgo() map[string][][2]int {
	all := map[string][][2]int{}
	for _, name := range d.order {
		for a := range d.size {
			for b := range d.size {
				if d.fresh[name] && a != b && d.reaches(name, a, b) && !d.reaches(name, b, a) {
					all[name] = append(all[name], [2]int{a, b})
				}
			}
		}
	}
	return all
}

// unjoined reports whether a pair has no transport, and whether such a pair can open none.
func (d *dense) unjoined() (some, final bool) {
	for a := range d.size {
		for b := range a {
			if d.route(a, b) == "" {
				some = true
				final = final || !d.left[a] && !d.left[b]
			}
		}
	}
	return some, final
}

func (d *dense) carried() map[string]int {
	n := map[string]int{}
	for _, name := range d.order {
		n[name] = 0
	}
	for a := range d.size {
		for b := range a {
			if name := d.route(a, b); name != "" {
				n[name]++
			}
		}
	}
	return n
}

// apart is Head's, with the reasons of the head for pairs that have one each way.
func (d *dense) apart(h *Head, name string) (away int, pairs [][2]int) {
	at := slices.Index(d.order, name)
	for a := range d.size {
		for b := range a {
			r := d.route(b, a)
			switch {
			case !d.open[name][a] || !d.open[name][b], r != "" && slices.Index(d.order, r) <= at:
			case h.why(name, b, a) == OtherNode:
				away++
			default:
				pairs = append(pairs, [2]int{b, a})
			}
		}
	}
	return away, pairs
}

func (d *dense) deniedTo(name string, r int) (peers []int, all bool) {
	reasons := map[string]bool{}
	for p := range d.size {
		if p == r || d.route(r, p) != name {
			continue
		}
		why := d.denied[name][[2]int{r, p}]
		reasons[why] = true
		if why != "" {
			peers = append(peers, p)
		}
	}
	return peers, len(peers) > 0 && len(reasons) == 1
}

// TestDense lets ranks open any transports, in any number of rounds, that reach whomever
// they like, and compares Head with dense.
func TestDense(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		order := []string{"shm", "tcp", "mem"}[:rapid.IntRange(1, 3).Draw(t, "transports")]
		size := rapid.IntRange(1, 9).Draw(t, "size")
		d := &dense{size: size, order: order, open: map[string][]bool{}, left: make([]bool, size),
			why: map[string]map[[2]int]string{}, denied: map[string]map[[2]int]string{}}
		for _, name := range order {
			d.open[name], d.why[name], d.denied[name] = make([]bool, size), map[[2]int]string{}, map[[2]int]string{}
		}
		h := New(size)
		for more := true; more; {
			more = d.round(t, h)
		}
	})
}

// round is one exchange. It reports whether there is another.
func (d *dense) round(t *rapid.T, h *Head) (more bool) {
	d.fresh = map[string]bool{}
	var reply *oob.Msg
	var done bool
	var err error
	infos := make([]oob.ReachInfo, d.size)
	for r := range infos {
		infos[r] = d.opens(t, r)
	}
	for r := range infos {
		if _, err := h.Address(r, &oob.Msg{Data: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
	}
	for r, info := range infos {
		data, _ := json.Marshal(info)
		reply, done, err = h.Reach(r, &oob.Msg{Data: data})
		if (reply != nil || err != nil) && r < d.size-1 {
			t.Fatalf("an answer after %d of %d: %v", r+1, d.size, err)
		}
	}
	some, final := d.unjoined()
	if final != (err != nil) || err == nil && done == some {
		t.Fatalf("some have no transport: %t, for good: %t; the head: done %t, %v", some, final, done, err)
	}
	if final {
		return false
	}
	var routes oob.RoutesInfo
	if err := json.Unmarshal(reply.Data, &routes); err != nil || routes.More == done {
		t.Fatal(routes, err)
	}
	forgo := map[string][][2]int{}
	for _, a := range slices.Sorted(maps.Keys(routes.Forgo)) {
		for _, u := range routes.Forgo[a] {
			for _, run := range u.Ranks {
				for b := run[0]; b <= run[1]; b++ {
					forgo[u.Transport] = append(forgo[u.Transport], [2]int{a, b})
				}
			}
		}
	}
	if want := d.forgo(); !reflect.DeepEqual(forgo, want) {
		t.Fatalf("forgo %v, want %v", forgo, want)
	}
	d.compare(t, h)
	return !done
}

// opens is what a rank opens in a round, and whom it reaches.
func (d *dense) opens(t *rapid.T, r int) oob.ReachInfo {
	info := oob.ReachInfo{Order: d.order}
	for _, name := range d.order {
		if d.open[name][r] {
			continue
		}
		if rapid.IntRange(0, 2).Draw(t, "opens") == 0 {
			info.Left = rapid.Bool().Draw(t, "left") || info.Left
			continue
		}
		d.open[name][r], d.fresh[name] = true, true
		info.Opened = append(info.Opened, name)
		whole := rapid.SampledFrom([]string{"", "", OtherNode}).Draw(t, "all")
		for p := range d.size {
			if p == r {
				continue
			}
			why := whole
			if rapid.IntRange(0, 3).Draw(t, "other") == 0 {
				why = rapid.SampledFrom([]string{"", OtherNode, "it is shy", "it is ill"}).Draw(t, "why")
			}
			if why != "" {
				d.why[name][[2]int{r, p}] = why
				info.Not = append(info.Not, oob.Unreached{Transport: name, Why: why, Ranks: [][2]int{{p, p}}})
			}
			if rapid.IntRange(0, 3).Draw(t, "denied") == 0 {
				why := rapid.SampledFrom([]string{"no", "never"}).Draw(t, "denial")
				d.denied[name][[2]int{r, p}] = why
				info.Denied = append(info.Denied, oob.Unreached{Transport: name, Why: why, Ranks: [][2]int{{p, p}}})
			}
		}
	}
	d.left[r] = info.Left
	return info
}

// compare compares all that Summary is made of.
func (d *dense) compare(t *rapid.T, h *Head) {
	got := map[string]int{}
	for _, name := range d.order {
		got[name] = h.carried()[name]
	}
	if want := d.carried(); !reflect.DeepEqual(got, want) {
		t.Fatalf("carried %v, want %v", got, want)
	}
	for _, name := range d.order {
		away, pairs := h.apart(name)
		if wantAway, want := d.apart(h, name); away != wantAway || !slices.Equal(pairs, want) {
			t.Fatalf("%s: apart %d, %v, want %d, %v", name, away, pairs, wantAway, want)
		}
		for r := range d.size {
			peers, all := h.deniedTo(h.transport(name), r)
			if want, wantAll := d.deniedTo(name, r); !slices.Equal(peers, want) || all != wantAll {
				t.Fatalf("%s: rank %d: denied to %v, %t, want %v, %t", name, r, peers, all, want, wantAll)
			}
			for p := range d.size {
				route := ""
				if tr := h.route(r, p); tr != nil && r != p {
					route = tr.name
				}
				if want := d.route(r, p); r != p && route != want {
					t.Fatalf("ranks %d and %d: %q, want %q", r, p, route, want)
				}
			}
		}
	}
	_ = h.Summary()
}
