package hosts

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Node is a machine of the job as its user has named it.
type Node struct {
	Name       string // host name or IP address, without brackets
	User       string // whom to log in as; "": the user's name there
	Addr       string // IP address at which it is called; "": its name
	Slots      int    // room for ranks; 0 if not given
	MaxSlots   int    // limit with -oversubscribe; 0: none
	SlotsGiven bool   // Slots is a limit, see the package comment
}

// maxSlots is far more than any node has, so that sums do not overflow.
const maxSlots = 1 << 20

// Target is the node with its user, as ssh takes it.
func (n Node) Target() string {
	if n.User == "" {
		return n.Name
	}
	return n.User + "@" + n.Name
}

// String is the node as ParseHosts reads it. Addr and MaxSlots have no place in it.
func (n Node) String() string {
	s := n.Name
	if strings.Contains(s, ":") {
		s = "[" + s + "]"
	}
	if n.User != "" {
		s = n.User + "@" + s
	}
	if n.SlotsGiven {
		s += ":" + strconv.Itoa(n.Slots)
	}
	return s
}

// WithCPUs is the node, with as many slots as CPUs if none were given.
func (n Node) WithCPUs(cpus int) Node {
	if !n.SlotsGiven {
		n.Slots = max(cpus, 1)
	}
	return n
}

// Mentioned are the nodes of a job that does not say how many ranks it has: nodes without slots
// have one, as they do for mpirun. A list that names a node several times has given it slots (see
// list.done).
func Mentioned(nodes []Node) []Node {
	nodes = slices.Clone(nodes)
	for i := range nodes {
		if n := &nodes[i]; !n.SlotsGiven {
			n.Slots, n.SlotsGiven = 1, true
		}
	}
	return nodes
}

// DefaultNP is the default number of ranks of a job: one for each slot.
func DefaultNP(nodes []Node) int {
	np := 0
	for _, n := range nodes {
		np += n.Slots
	}
	return np
}

// parseNode reads [user@]name[:slots]. The name may be an IPv6 address in brackets.
func parseNode(s string) (n Node, err error) {
	rest := s
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		n.User, rest = rest[:i], rest[i+1:]
		if err := checkWord("user", n.User); err != nil {
			return Node{}, err
		}
	}
	slots, given := "", false
	if strings.HasPrefix(rest, "[") {
		i := strings.IndexByte(rest, ']')
		if i < 0 {
			return Node{}, fmt.Errorf("%q: the bracket is not closed", s)
		}
		n.Name, rest = rest[1:i], rest[i+1:]
		if a, err := parseAddr(n.Name); errors.Is(err, errZone) {
			return Node{}, err
		} else if err != nil || !a.Is6() {
			return Node{}, fmt.Errorf("%q: no IPv6 address in the brackets", s)
		}
		if slots, given = strings.CutPrefix(rest, ":"); !given && rest != "" {
			return Node{}, fmt.Errorf("%q: %q follows the bracket; write [ADDRESS]:SLOTS", s, rest)
		}
	} else {
		n.Name, slots, given = strings.Cut(rest, ":")
		if strings.Contains(slots, ":") {
			return Node{}, fmt.Errorf("%q: write an IPv6 address in brackets, [ADDRESS]:SLOTS", s)
		}
		if err := checkWord("node", n.Name); err != nil {
			return Node{}, err
		}
	}
	if given {
		err = n.setSlots(slots)
	}
	return n, err
}

// setSlots takes a number of slots that the user has given.
func (n *Node) setSlots(s string) error {
	v, err := parseSlots(s)
	if err != nil {
		return fmt.Errorf("%s: slots %w", n.Name, err)
	}
	if n.SlotsGiven && n.Slots != v {
		return fmt.Errorf("%s: slots are given twice, %d and %d", n.Name, n.Slots, v)
	}
	n.Slots, n.SlotsGiven = v, true
	return nil
}

func parseSlots(s string) (int, error) {
	v, err := strconv.Atoi(s)
	if err != nil || v < 1 || v > maxSlots {
		return 0, fmt.Errorf("%q: want a number from 1 to %d", s, maxSlots)
	}
	return v, nil
}

var errZone = errors.New("a link-local address is one of every network")

// parseAddr reads an IP address. Its zone, if it has one, is a word.
func parseAddr(s string) (netip.Addr, error) {
	a, err := netip.ParseAddr(s)
	switch {
	case err != nil:
	case a.Zone() != "":
		err = checkWord("zone", a.Zone())
	case a.Is6() && a.IsLinkLocalUnicast():
		err = fmt.Errorf("%s: %w: name the interface that leads to the node, as in [%s%%eth0]", s, errZone, s)
	}
	return a, err
}

// checkWord refuses a name that a command or shell could take for something else: an option, or
// special characters.
func checkWord(what, s string) error {
	if s == "" {
		return fmt.Errorf("the name of a %s is empty", what)
	}
	if s[0] == '-' {
		return fmt.Errorf("%s %q: a name must not begin with -", what, s)
	}
	for _, c := range []byte(s) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && strings.IndexByte("-_.+", c) < 0 {
			return fmt.Errorf("%s %q: a name has letters, digits and any of - _ . +", what, s)
		}
	}
	return nil
}

// list collects nodes by name. Names that come again add slots.
type list struct {
	nodes []Node
	at    map[string]int // by name
	plain map[string]int // how often a name came without slots
}

func newList() *list { return &list{at: map[string]int{}, plain: map[string]int{}} }

func (l *list) add(n Node) error {
	if !n.SlotsGiven {
		l.plain[n.Name]++
	}
	i, ok := l.at[n.Name]
	if !ok {
		l.at[n.Name] = len(l.nodes)
		l.nodes = append(l.nodes, n)
		return nil
	}
	have := &l.nodes[i]
	for _, p := range []struct {
		what      string
		have, now *string
	}{{"user", &have.User, &n.User}, {"addr", &have.Addr, &n.Addr}} {
		if *p.now != "" && *p.have != "" && *p.now != *p.have {
			return fmt.Errorf("node %s has %s %q, and %q before", n.Name, p.what, *p.now, *p.have)
		}
		if *p.have == "" {
			*p.have = *p.now
		}
	}
	if n.SlotsGiven != have.SlotsGiven {
		return fmt.Errorf("node %s is there with slots and without", n.Name)
	}
	if n.MaxSlots != 0 && have.MaxSlots != 0 && n.MaxSlots != have.MaxSlots {
		return fmt.Errorf("node %s has max_slots %d, and %d before", n.Name, n.MaxSlots, have.MaxSlots)
	}
	have.MaxSlots = max(have.MaxSlots, n.MaxSlots)
	if have.Slots += n.Slots; have.Slots > maxSlots {
		return fmt.Errorf("node %s has more than %d slots", n.Name, maxSlots)
	}
	return nil
}

var errNoNode = errors.New("no node is named")

// done returns the nodes. Plain names are slots if counted, or if any of them came again.
func (l *list) done(counted bool) ([]Node, error) {
	if len(l.nodes) == 0 {
		return nil, errNoNode
	}
	for _, times := range l.plain {
		counted = counted || times > 1
	}
	for i := range l.nodes {
		n := &l.nodes[i]
		if counted && !n.SlotsGiven {
			n.Slots, n.SlotsGiven = l.plain[n.Name], true
		}
		if n.MaxSlots != 0 && n.SlotsGiven && n.MaxSlots < n.Slots {
			return nil, fmt.Errorf("node %s has %d slots and max_slots %d", n.Name, n.Slots, n.MaxSlots)
		}
	}
	return l.nodes, nil
}
