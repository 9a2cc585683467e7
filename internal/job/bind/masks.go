package bind

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Unit is what a rank is bound to.
type Unit string

const (
	None   Unit = "none"
	Core   Unit = "core"
	Socket Unit = "socket"
	NUMA   Unit = "numa"
)

// Units lists what ParseUnit knows.
var Units = []string{string(None), string(Core), string(Socket), string(NUMA)}

// ParseUnit reads the value of -bind.
func ParseUnit(s string) (Unit, error) {
	if !slices.Contains(Units, s) {
		return None, fmt.Errorf("-bind %s: known are %s", s, strings.Join(Units, ", "))
	}
	return Unit(s), nil
}

// Rule is how the ranks of one agent are bound.
type Rule struct {
	Unit     Unit `json:"unit"`
	BySocket bool `json:"by_socket,omitempty"` // they are dealt out to sockets
	Before   int  `json:"before,omitempty"`    // ranks of the job on this machine that other agents bind
}

// ErrCores is that of more ranks than cores.
var ErrCores = errors.New("too few cores")

// Masks are the CPUs of n ranks.
func (t *Topology) Masks(r Rule, n int) ([]Set, error) {
	seq := t.sequence(r.BySocket)
	if r.Unit == Core && r.Before+n > len(seq) {
		return nil, fmt.Errorf("%w: -bind core, %d ranks on this machine and %d cores that gorun may use: CPUs %s of %d (the others are not in its cgroup's cpuset, or taskset or a batch system forbids them); use fewer ranks here, -bind socket or -bind none",
			ErrCores, r.Before+n, len(seq), t.may, t.online)
	}
	masks := make([]Set, n)
	for i := range masks {
		masks[i] = t.widen(seq[(r.Before+i)%len(seq)], r.Unit)
	}
	return masks, nil
}

// sequence is the order in which ranks take cores.
func (t *Topology) sequence(bySocket bool) []core {
	if !bySocket {
		return t.cores
	}
	var sockets [][]core
	for i, c := range t.cores {
		if i == 0 || c.socket != t.cores[i-1].socket {
			sockets = append(sockets, nil)
		}
		last := len(sockets) - 1
		sockets[last] = append(sockets[last], c)
	}
	seq := make([]core, 0, len(t.cores))
	for round := 0; len(seq) < len(t.cores); round++ {
		for _, s := range sockets {
			if round < len(s) {
				seq = append(seq, s[round])
			}
		}
	}
	return seq
}

// widen returns the CPUs of the unit that a core belongs to.
func (t *Topology) widen(c core, unit Unit) Set {
	var s Set
	for _, o := range t.cores {
		same := o.cpus.Equal(c.cpus)
		switch unit {
		case Socket:
			same = o.socket == c.socket
		case NUMA:
			same = o.numa == c.numa
		}
		if same {
			for _, n := range o.cpus.All() {
				s = s.with(n)
			}
		}
	}
	return s
}
