package image

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
)

// mend changes the four bytes at p[at:] so that p has the checksum again that it had.
func mend(p []byte, at int, sum uint32) {
	// A checksum is linear: each bit that is flipped changes it by a pattern of its own. Find the bits whose patterns
	// together make the difference, by elimination.
	type row struct{ pattern, bits uint32 }
	var rows []row
	is := checksum(p)
	for bit := range 32 {
		p[at+bit/8] ^= 1 << (bit % 8)
		rows = append(rows, row{checksum(p) ^ is, 1 << bit})
		p[at+bit/8] ^= 1 << (bit % 8)
	}
	want := row{pattern: is ^ sum}
	for col := range 32 {
		for i := col; i < 32; i++ {
			if rows[i].pattern>>col&1 == 1 {
				rows[col], rows[i] = rows[i], rows[col]
				break
			}
		}
		take := func(r *row) {
			if r.pattern>>col&1 == 1 {
				r.pattern, r.bits = r.pattern^rows[col].pattern, r.bits^rows[col].bits
			}
		}
		for i := col + 1; i < 32; i++ {
			take(&rows[i])
		}
		take(&want)
	}
	for bit := range 32 {
		p[at+bit/8] ^= byte(want.bits>>bit&1) << (bit % 8)
	}
}

// A block that was changed and given its old checksum again is found, whether it is stored as it is or compressed.
func TestMendedChecksum(t *testing.T) {
	whole := smallImage(t)
	for _, name := range []string{"noise", "text"} {
		p := bytes.Clone(whole)
		r, err := NewReader(bytes.NewReader(p), int64(len(p)), "mem")
		if err != nil {
			t.Fatal(err)
		}
		s := r.sections[r.byName[[2]string{"k", name}]]
		b := s.blocks[0]
		stored := p[b.off:][:b.stored]
		stored[b.stored/2] ^= 0x20
		mend(stored, 1, b.sumStored)
		if checksum(stored) != b.sumStored {
			t.Fatal("the checksum is not mended")
		}
		for what, err := range map[string]error{"Verify": r.Verify(), "ReadSection": r.ReadSection("k", name, make([]byte, s.size)), "ReadRange": r.ReadRange("k", name, 1, make([]byte, 2))} {
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "digest of block 0") {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
	}
}

// Images of version 1, which have no digests of blocks, are read as ever.
func TestVersion1(t *testing.T) {
	p, err := os.ReadFile("testdata/version1.img")
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewReader(bytes.NewReader(p), int64(len(p)), "mem")
	if err != nil || r.Version() != 1 || r.Digested() {
		t.Fatal(r.Version(), err)
	}
	for name, want := range map[string][]byte{"noise": data("noise", 300, 1), "text": data("text", 6000, 1), "zero": make([]byte, 5000)} {
		got := make([]byte, len(want))
		if err := r.ReadSection("k", name, got); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := r.Verify(); err != nil {
		t.Error(err)
	}
	for i := range p {
		p[i] ^= 1 << (i % 8)
		if check(p) == nil {
			t.Fatalf("a flipped bit in byte %d is not seen", i)
		}
		p[i] ^= 1 << (i % 8)
	}
}
