package mpi

import "testing"

// Strips cover every block once, in no more turns than it takes, and begin at whole lines of
// memory where there is room for that.
func TestStrips(t *testing.T) {
	for _, c := range []struct{ n, bytes, most, turns, lines int }{
		{64, 16 << 10, 178112, 6, 64}, {3, 100, 299, 2, 64}, {3, 100, 300, 1, 64}, {2, 128, 130, 2, 64},
		{64, 8, 100, 8, 1}, {2, 199, 200, 2, 1}, {2, 0, 4096, 1, 64}, {1, 129, 128, 2, 64},
	} {
		at, turns := 0, 0
		err := strips(c.n, c.bytes, c.most, func(off, k int) error {
			if off != at || c.n*k > c.most || off%c.lines != 0 {
				t.Errorf("%+v: %d bytes from %d on", c, k, off)
			}
			at, turns = off+k, turns+1
			return nil
		})
		if err != nil || at != c.bytes || turns != c.turns {
			t.Errorf("%+v: %d bytes in %d turns, %v", c, at, turns, err)
		}
	}
}
