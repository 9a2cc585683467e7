package bind

import (
	"bytes"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// Set is a set of CPUs: a bit for each, as the kernel takes it. Its last byte is not 0, so that equal
// sets have equal bytes.
type Set []byte

// mostCPUs is the number of CPUs of the largest kernel.
const mostCPUs = 8192

// Of makes a set.
func Of(cpus ...int) Set {
	var s Set
	for _, n := range cpus {
		s = s.with(n)
	}
	return s
}

func (s Set) with(n int) Set {
	for len(s) <= n/8 {
		s = append(s, 0)
	}
	s[n/8] |= 1 << (n % 8)
	return s
}

// Has reports whether a CPU is in the set.
func (s Set) Has(n int) bool { return n >= 0 && n/8 < len(s) && s[n/8]&(1<<(n%8)) != 0 }

// Count is the number of CPUs in the set.
func (s Set) Count() (n int) {
	for _, b := range s {
		n += bits.OnesCount8(b)
	}
	return n
}

// Equal compares sets.
func (s Set) Equal(t Set) bool { return bytes.Equal(s, t) }

// All lists the CPUs.
func (s Set) All() (cpus []int) {
	for n := range 8 * len(s) {
		if s.Has(n) {
			cpus = append(cpus, n)
		}
	}
	return cpus
}

// String writes the set as the kernel does: 0-3,8.
func (s Set) String() string {
	var parts []string
	for n := 0; n < 8*len(s); n++ {
		if !s.Has(n) {
			continue
		}
		first := n
		for s.Has(n + 1) {
			n++
		}
		if n == first {
			parts = append(parts, strconv.Itoa(n))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", first, n))
		}
	}
	return strings.Join(parts, ",")
}

// Parse reads a list of the kernel's: 0-3,8. An empty one is the empty set.
func Parse(list string) (Set, error) {
	var s Set
	list = strings.TrimSpace(list)
	if list == "" {
		return s, nil
	}
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		from, err := cpu(first)
		to := from
		if err == nil && isRange {
			to, err = cpu(last)
		}
		if err != nil || to < from {
			return nil, fmt.Errorf("list of CPUs %q: want numbers below %d, like 0-3,8", list, mostCPUs)
		}
		for n := from; n <= to; n++ {
			s = s.with(n)
		}
	}
	return s, nil
}

func cpu(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err == nil && n >= mostCPUs {
		err = strconv.ErrRange
	}
	return int(n), err
}
