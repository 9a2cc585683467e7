package protect

import "fmt"

// Fitting returns the groups of a policy. If there are too few nodes or racks for it, the result is
// that of the strongest weaker policy that fits, as some protection is better than none. Then why
// says what prevents the policy, and what replaces it.
func Fitting(policy Policy, p Placement) (groups []Group, why error) {
	groups, why = policy.Groups(p)
	for w := weaker(policy); why != nil && w != nil; w = weaker(w) {
		if groups, err := w.Groups(p); err == nil {
			return groups, fmt.Errorf("%w; %v is kept in its place", why, w)
		}
	}
	return groups, why
}

// weaker is a policy that needs fewer nodes or racks, nil if there is none.
func weaker(policy Policy) Policy {
	switch p := policy.(type) {
	case Ring:
		if p > 1 {
			return p - 1
		}
	case OtherRack:
		return Ring(1)
	case Code:
		if p.Racks {
			return Code{Data: p.Data, Parity: p.Parity}
		}
		if p.Parity > 1 {
			return Code{Data: p.Data, Parity: p.Parity - 1}
		}
	}
	return nil
}
