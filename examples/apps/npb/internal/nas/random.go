package nas

// Random is the state of the linear congruential generator x' = a x mod 2^46 of RNR-94-007, section 2.3. Its
// numbers are exact, so a rank can begin anywhere in their sequence.
type Random uint64

const (
	// Multiplier is a = 5^13.
	Multiplier = 1220703125
	// Seed is that of all benchmarks but EP.
	Seed Random = 314159265

	mask  = 1<<46 - 1
	scale = 1.0 / (1 << 46)
)

// Next steps on, and returns the new state as a number between 0 and 1.
func (r *Random) Next() float64 {
	*r = Random(Multiplier * uint64(*r) & mask)
	return float64(*r) * scale
}

// After returns the generator as it is n steps later.
func (r Random) After(n int) Random {
	x := uint64(r)
	for a := uint64(Multiplier); n > 0; n >>= 1 {
		if n&1 == 1 {
			x = a * x & mask
		}
		a = a * a & mask
	}
	return Random(x)
}
