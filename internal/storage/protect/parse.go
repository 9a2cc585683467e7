package protect

import (
	"fmt"
	"strconv"
	"strings"
)

// Parse reads a policy as users write it: ring, ring:2, pairs, rack, code:4+2, code:4+2:racks.
func Parse(s string) (Policy, error) {
	name, arg, given := strings.Cut(s, ":")
	bad := fmt.Errorf("policy %q: known are ring, ring:K, pairs, rack, code:DATA+PARITY and code:DATA+PARITY:racks", s)
	switch {
	case s == "ring":
		return Ring(1), nil
	case s == "pairs":
		return Pairs{}, nil
	case s == "rack":
		return OtherRack{}, nil
	case name == "ring" && given:
		k, err := strconv.Atoi(arg)
		if err != nil || k < 1 || k >= mostPieces {
			return nil, bad
		}
		return Ring(k), nil
	case name == "code" && given:
		var c Code
		arg, c.Racks = strings.CutSuffix(arg, ":racks")
		data, parity, _ := strings.Cut(arg, "+")
		var err1, err2 error
		c.Data, err1 = strconv.Atoi(data)
		c.Parity, err2 = strconv.Atoi(parity)
		if err1 != nil || err2 != nil || c.Data < 1 || c.Parity < 1 || c.Data+c.Parity > mostPieces {
			return nil, bad
		}
		return c, nil
	}
	return nil, bad
}
