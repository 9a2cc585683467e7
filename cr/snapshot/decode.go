package snapshot

import (
	"bytes"
	"fmt"

	"github.com/BurntSushi/toml"
)

// Bounds of what is given to the parser of TOML at once, which needs some forty times the memory of its text. What
// grows with the number of ranks, the lists of places and images, goes through it in small pieces, so a forged
// schema takes no more memory than one of as many ranks has to.
const (
	maxHead  = 16 << 20 // bytes of all but the lists; arguments, environment and libraries are most of it
	maxEntry = 64 << 10 // bytes of one entry of a list
	piece    = 256 << 10
)

// lists are those with an entry for each rank.
type lists struct {
	Placement []Placement `toml:"placement"`
	Images    []Image     `toml:"images"`
}

// decode reads the TOML of a schema.
func decode(p []byte) (*Schema, error) {
	var head bytes.Buffer
	tables(p, func(list bool, table []byte) error { // never fails
		if !list {
			head.Write(table)
		}
		return nil
	})
	if head.Len() > maxHead {
		return nil, fmt.Errorf("%w: %d bytes beside what it says of each rank, at most %d", ErrSchema, head.Len(), maxHead)
	}
	// The format first: a newer one may have anything else in it.
	var v struct {
		Format int `toml:"format"`
	}
	if _, err := toml.Decode(head.String(), &v); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrSchema, err)
	}
	if v.Format > Format {
		return nil, fmt.Errorf("%w: format %d, this gorun reads up to %d; use the newer gorun that wrote it", ErrFormat, v.Format, Format)
	}
	s := &Schema{}
	if err := strict(head.Bytes(), s); err != nil {
		return nil, err
	}
	if s.NP < 1 || s.NP > maxRanks {
		return nil, fmt.Errorf("%w: np = %d", ErrSchema, s.NP)
	}
	return s, s.decodeLists(p)
}

// decodeLists reads what there is for each rank.
func (s *Schema) decodeLists(p []byte) error {
	var batch []byte
	flush := func() error {
		var l lists
		if err := strict(batch, &l); err != nil {
			return err
		}
		s.Placement, s.Images, batch = append(s.Placement, l.Placement...), append(s.Images, l.Images...), batch[:0]
		if len(s.Placement) > s.NP || len(s.Images) > s.NP {
			return fmt.Errorf("%w: more images or places than its %d ranks", ErrSchema, s.NP)
		}
		return nil
	}
	err := tables(p, func(list bool, table []byte) error {
		if !list {
			return nil
		}
		if len(table) > maxEntry {
			return fmt.Errorf("%w: %d bytes for one rank, at most %d", ErrSchema, len(table), maxEntry)
		}
		if batch = append(batch, table...); len(batch) < piece {
			return nil
		}
		return flush()
	})
	if err != nil || len(batch) == 0 {
		return err
	}
	return flush()
}

// tables calls f for each table of a document, and for what stands before the first; list says that it is an entry of a list with one for
// each rank. A table begins with a line that begins with a bracket. No string that a schema is written with contains an end of a line.
func tables(p []byte, f func(list bool, table []byte) error) error {
	for len(p) > 0 {
		n := len(p)
		if i := bytes.Index(p[1:], []byte("\n[")); i >= 0 {
			n = 1 + i + 1
		}
		list := bytes.HasPrefix(p, []byte("[[placement]]")) || bytes.HasPrefix(p, []byte("[[images]]"))
		if err := f(list, p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// strict reads TOML and refuses unknown keys.
func strict(p []byte, to any) error {
	md, err := toml.Decode(string(p), to)
	if err != nil {
		return fmt.Errorf("%w: %v", ErrSchema, err)
	}
	if keys := md.Undecoded(); len(keys) > 0 {
		return fmt.Errorf("%w: unknown key %q", ErrSchema, keys[0].String())
	}
	return nil
}
