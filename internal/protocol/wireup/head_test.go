package wireup

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// TestOrder makes ranks speak twice, or when it is not their turn.
func TestOrder(t *testing.T) {
	address, reach := &oob.Msg{Data: []byte(`{}`)}, &oob.Msg{Data: []byte(`{"order":["tcp"],"opened":["tcp"]}`)}
	h := New(2)
	told := func(m *oob.Msg, err error) {
		t.Helper()
		if m == nil || err != nil {
			t.Fatal(m, err)
		}
	}
	wrong := func(err error, text string) {
		t.Helper()
		if !errors.Is(err, ErrOrder) || !strings.Contains(err.Error(), text) {
			t.Errorf("%v", err)
		}
	}
	reaches := func(rank int) error {
		_, _, err := h.Reach(rank, reach)
		return err
	}
	wrong(reaches(0), "rank 0: wire-up out of order: a Reach message when it is not its turn")
	h.Address(1, address)
	_, err := h.Address(1, address)
	wrong(err, "rank 1: wire-up out of order: a second Address message")
	if done, err := h.Address(0, address); !done || err != nil {
		t.Fatal(done, err)
	}
	_, err = h.Address(0, address)
	wrong(err, "not its turn")
	h.Reach(0, reach)
	wrong(reaches(0), "rank 0: wire-up out of order: a second Reach")
	m, done, err := h.Reach(1, reach)
	told(m, err)
	if !done {
		t.Error("not connected")
	}
	_, err = h.Address(0, address)
	wrong(err, "not its turn")
}

// world is ranks whose transports reach as a test says.
type world struct {
	order  []string
	first  int // how many of them are opened at once
	nodes  []int
	failed map[string]map[int]string    // by transport and rank
	broken map[string]map[[2]int]string // from, to: why
	denied map[[2]int]string            // to shm, from, to: why
}

// run goes through the exchange. It returns, by rank, the transports to each
// peer as the rank itself sees it, and in how many rounds.
func (w *world) run(t *testing.T) (h *Head, views [][]string, rounds int, err error) {
	t.Helper()
	n := len(w.nodes)
	h = New(n)
	opened, tried := make([][]string, n), make([]int, n)
	views = make([][]string, n)
	for i := range views {
		views[i] = make([]string, n)
	}
	for more := true; more; {
		rounds++
		fresh, failed := make([][]string, n), make([]map[string]string, n)
		for r := range n {
			upTo := w.first
			if rounds > 1 {
				upTo = tried[r]
				if peer := slices.Index(views[r], ""); peer >= 0 && (peer != r || slices.Contains(views[r][r+1:], "")) {
					upTo = len(w.order)
				}
			}
			for ; tried[r] < upTo; tried[r]++ {
				name := w.order[tried[r]]
				if why, no := w.failed[name][r]; no {
					failed[r] = map[string]string{name: why}
					continue
				}
				fresh[r] = append(fresh[r], name)
			}
			opened[r] = append(opened[r], fresh[r]...)
			modules := map[string][]byte{}
			for _, name := range fresh[r] {
				modules[name] = []byte{byte(r)}
			}
			data, _ := json.Marshal(oob.AddressInfo{Modules: modules})
			done, err := h.Address(r, &oob.Msg{Data: data})
			if err != nil || done != (r == n-1) {
				t.Fatal(done, err)
			}
		}
		var reply *oob.Msg
		var done bool
		for r := range n {
			info := oob.ReachInfo{Order: w.order, Opened: fresh[r], Left: tried[r] < len(w.order), Failed: failed[r]}
			for _, name := range fresh[r] {
				for peer := range n {
					why := ""
					switch {
					case peer == r:
						continue
					case name == "shm" && w.nodes[peer] != w.nodes[r]:
						why = OtherNode
					case !slices.Contains(opened[peer], name):
						why = "it has none"
					default:
						why = w.broken[name][[2]int{r, peer}]
					}
					if no := w.denied[[2]int{r, peer}]; name == "shm" && no != "" {
						info.Denied = append(info.Denied, oob.Unreached{Transport: name, Why: "it: " + no, Ranks: oob.RunsOf([]int{peer})})
					}
					if why == "" {
						if views[r][peer] == "" {
							views[r][peer] = name
						}
						continue
					}
					info.Not = append(info.Not, oob.Unreached{Transport: name, Why: why, Ranks: oob.RunsOf([]int{peer})})
				}
			}
			data, _ := json.Marshal(info)
			if reply, done, err = h.Reach(r, &oob.Msg{Data: data}); err != nil {
				return h, views, rounds, err
			}
		}
		var routes oob.RoutesInfo
		if err := json.Unmarshal(reply.Data, &routes); err != nil || done == routes.More {
			t.Fatal(routes, done, err)
		}
		for r, list := range routes.Forgo {
			for _, u := range list {
				for _, run := range u.Ranks {
					for p := run[0]; p <= run[1]; p++ {
						if views[r][p] != u.Transport {
							t.Errorf("rank %d is to forgo %s for rank %d, to which it has %q", r, u.Transport, p, views[r][p])
						}
						views[r][p] = ""
					}
				}
			}
		}
		more = routes.More
	}
	return h, views, rounds, nil
}

func TestRoutes(t *testing.T) {
	both := []string{"shm", "tcp"}
	for name, c := range map[string]struct {
		world  world
		rounds int
		routes string // rank by rank, first letters
		text   string
		notes  []string
		err    string
		usual  bool
	}{
		"one node": {world: world{order: both, first: 1, nodes: []int{0, 0, 0}}, rounds: 1,
			routes: "-ss s-s ss-", text: "shm", usual: true},
		"two nodes": {world: world{order: both, first: 2, nodes: []int{0, 0, 1}}, rounds: 1,
			routes: "-st s-t tt-", text: "shm (1 pairs of ranks), tcp (2 pairs of ranks)",
			notes: []string{"shm: 2 pairs of ranks are on different nodes"}, usual: true},
		"tcp first": {world: world{order: []string{"tcp", "shm"}, first: 1, nodes: []int{0, 0, 0}}, rounds: 1,
			routes: "-tt t-t tt-", text: "tcp", usual: true},
		"one way": {world: world{order: both, first: 1, nodes: []int{0, 0, 0, 0},
			broken: map[string]map[[2]int]string{"shm": {{2, 0}: "it is shy"}}}, rounds: 2,
			routes: "-sts s-ss ts-s sss-", text: "shm (5 pairs of ranks), tcp (1 pairs of ranks)",
			notes: []string{"shm: not between rank 0 and rank 2: it is shy"}},
		"a hermit": {world: world{order: both, first: 1, nodes: []int{0, 0, 0, 0},
			broken: map[string]map[[2]int]string{"shm": {{0, 2}: "it is shy", {1, 2}: "it is shy", {3, 2}: "it is shy"}}}, rounds: 2,
			routes: "-sts s-ts tt-t sst-", text: "shm (3 pairs of ranks), tcp (3 pairs of ranks)",
			notes: []string{"shm: not between rank 2 and ranks 0-1, 3: it is shy"}},
		"shy for two reasons": {world: world{order: both, first: 1, nodes: []int{0, 0, 0, 0},
			broken: map[string]map[[2]int]string{"shm": {{0, 1}: "it is shy", {0, 2}: "it is ill", {0, 3}: "it is shy"}}}, rounds: 2,
			routes: "-ttt t-ss ts-s tss-", text: "shm (3 pairs of ranks), tcp (3 pairs of ranks)",
			notes: []string{"shm: not between rank 0 and ranks 1, 3: it is shy", "shm: not between rank 0 and rank 2: it is ill"}},
		"none here": {world: world{order: both, first: 1, nodes: []int{0, 0, 0},
			failed: map[string]map[int]string{"shm": {0: "no memory", 1: "no memory", 2: "no memory"}}}, rounds: 2,
			routes: "-tt t-t tt-", text: "tcp", notes: []string{"shm: ranks 0-2 cannot use it: no memory"}},
		"none at one": {world: world{order: both, first: 1, nodes: []int{0, 0, 0},
			failed: map[string]map[int]string{"shm": {1: "no memory"}}}, rounds: 2,
			routes: "-ts t-t st-", text: "shm (1 pairs of ranks), tcp (2 pairs of ranks)",
			notes: []string{"shm: rank 1 cannot use it: no memory"}},
		"denied everywhere": {world: world{order: both, first: 1, nodes: []int{0, 0, 0},
			denied: map[[2]int]string{{0, 1}: "no", {0, 2}: "no", {1, 0}: "no", {1, 2}: "no", {2, 0}: "no", {2, 1}: "no"}}, rounds: 1,
			routes: "-ss s-s ss-", text: "shm", notes: []string{"shm: at ranks 0-2 it cannot heed it: no"}},
		"denied at one": {world: world{order: both, first: 1, nodes: []int{0, 0, 0},
			denied: map[[2]int]string{{1, 0}: "no", {1, 2}: "no"}}, rounds: 1,
			routes: "-ss s-s ss-", text: "shm", notes: []string{"shm: at rank 1 it cannot heed it: no"}},
		"denied with one": {world: world{order: both, first: 1, nodes: []int{0, 0, 0},
			denied: map[[2]int]string{{0, 1}: "no", {2, 1}: "no"}}, rounds: 1,
			routes: "-ss s-s ss-", text: "shm", notes: []string{"shm: between rank 1 and ranks 0, 2 it cannot heed it: no"}},
		"denied for two reasons": {world: world{order: both, first: 1, nodes: []int{0, 0, 0, 0},
			denied: map[[2]int]string{{0, 1}: "no", {0, 2}: "never", {3, 0}: "no", {1, 2}: "no"}}, rounds: 1,
			routes: "-sss s-ss ss-s sss-", text: "shm", notes: []string{
				"shm: between rank 0 and ranks 1, 3 and between rank 1 and rank 2 it cannot heed it: no",
				"shm: between rank 0 and rank 2 it cannot heed it: never"}},
		"denied to each other for two reasons": {world: world{order: both, first: 1, nodes: []int{0, 0, 0},
			denied: map[[2]int]string{{0, 1}: "no", {0, 2}: "no", {1, 0}: "never"}}, rounds: 1,
			routes: "-ss s-s ss-", text: "shm", notes: []string{
				"shm: at rank 0 it cannot heed it: no", "shm: between rank 0 and rank 1 it cannot heed it: never"}},
		"denied at one for two reasons": {world: world{order: both, first: 1, nodes: []int{0, 0, 0},
			denied: map[[2]int]string{{0, 1}: "no", {0, 2}: "never"}}, rounds: 1,
			routes: "-ss s-s ss-", text: "shm", notes: []string{
				"shm: between rank 0 and rank 1 it cannot heed it: no", "shm: between rank 0 and rank 2 it cannot heed it: never"}},
		"denied where it carries nothing": {world: world{order: both, first: 2, nodes: []int{0, 0, 1},
			denied: map[[2]int]string{{0, 2}: "no", {2, 0}: "no"}}, rounds: 1,
			routes: "-st s-t tt-", text: "shm (1 pairs of ranks), tcp (2 pairs of ranks)",
			notes: []string{"shm: 2 pairs of ranks are on different nodes"}, usual: true},
		"shm across nodes": {world: world{order: both[:1], first: 1, nodes: []int{0, 0, 1}},
			err: "rank 0 and rank 2 cannot reach each other over -rpi shm (shm: on different nodes): name a transport that reaches all: -rpi shm,tcp"},
		"shm nowhere": {world: world{order: both[:1], first: 1, nodes: []int{0, 0},
			failed: map[string]map[int]string{"shm": {1: "no memory"}}},
			err: "rank 0 and rank 1 cannot reach each other over -rpi shm (shm: rank 1 cannot use it: no memory): name"},
	} {
		t.Run(name, func(t *testing.T) {
			h, views, rounds, err := c.world.run(t)
			if c.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), c.err) {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var all []string
			for r, view := range views {
				s := ""
				for p, name := range view {
					if p == r {
						name = "-"
					}
					s += name[:1]
				}
				all = append(all, s)
			}
			if got := strings.Join(all, " "); got != c.routes || rounds != c.rounds {
				t.Errorf("%s in %d rounds", got, rounds)
			}
			s := h.Summary()
			if s.String() != c.text || !reflect.DeepEqual(s.Notes, c.notes) || s.Unusual == c.usual {
				t.Errorf("%q, %q, unusual: %v", s.String(), s.Notes, s.Unusual)
			}
		})
	}
}

// A rank that speaks nonsense is an error that names it.
func TestNonsense(t *testing.T) {
	h := New(2)
	if _, err := h.Address(1, &oob.Msg{Data: []byte("{")}); err == nil || !strings.Contains(err.Error(), "rank 1") {
		t.Error(err)
	}
	if _, _, err := h.Reach(1, &oob.Msg{Data: []byte("{")}); err == nil || !strings.Contains(err.Error(), "rank 1") {
		t.Error(err)
	}
	if _, err := h.Late(1, &oob.Msg{Data: []byte("{")}); err == nil || !strings.Contains(err.Error(), "rank 1") {
		t.Error(err)
	}
}

func TestRanks(t *testing.T) {
	for want, ranks := range map[string][]int{"rank 3": {3}, "ranks 0-1": {0, 1}, "ranks 0-3, 7": {0, 1, 2, 3, 7}} {
		if got := Ranks(ranks); got != want {
			t.Errorf("%v: %q", ranks, got)
		}
	}
	if got := oob.RunsOf([]int{0, 1, 2, 5, 7, 8}); !reflect.DeepEqual(got, [][2]int{{0, 2}, {5, 5}, {7, 8}}) {
		t.Error(got)
	}
}
