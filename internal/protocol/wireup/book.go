package wireup

import (
	"encoding/binary"
	"errors"
	"slices"
)

// Book is addresses of ranks, by transport.
type Book []Sheet

// Sheet has the addresses of one transport.
type Sheet struct {
	Transport string
	Ranks     []int    // in order
	Addresses [][]byte // of these
	Asked     [][2]int // runs of ranks that have it open, too, and whose addresses are to be asked for
}

// An encoded book, with all numbers as Uvarint, is
//
//	number of sheets, and for each
//	  length of its name, name
//	  number of addresses, and for each
//	    ranks left out since the one before
//	    how many bytes it has in common with the address before: at its beginning, and at its end
//	    how many are between them, and these
//	  number of runs, and for each: ranks left out since the run before, its length - 1
//
// Ranks of one node have the same addresses, except for a port or a number. So an address takes
// about five bytes.

// mostAddress bounds one address.
const mostAddress = 64 << 10

// ErrBook is wrapped by the errors about bytes that are not a book.
var ErrBook = errors.New("malformed addresses of ranks")

// Append encodes a book behind dst.
func (b Book) Append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(b)))
	for i := range b {
		dst = b[i].append(dst)
	}
	return dst
}

func (s *Sheet) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s.Transport)))
	dst = append(dst, s.Transport...)
	dst = binary.AppendUvarint(dst, uint64(len(s.Ranks)))
	next, before := 0, []byte(nil)
	for i, r := range s.Ranks {
		a := s.Addresses[i]
		front := same(before, a)
		back := sameEnd(before[front:], a[front:])
		dst = binary.AppendUvarint(dst, uint64(r-next))
		dst = binary.AppendUvarint(dst, uint64(front))
		dst = binary.AppendUvarint(dst, uint64(back))
		dst = binary.AppendUvarint(dst, uint64(len(a)-front-back))
		dst = append(dst, a[front:len(a)-back]...)
		next, before = r+1, a
	}
	dst = binary.AppendUvarint(dst, uint64(len(s.Asked)))
	next = 0
	for _, run := range s.Asked {
		dst = binary.AppendUvarint(dst, uint64(run[0]-next))
		dst = binary.AppendUvarint(dst, uint64(run[1]-run[0]))
		next = run[1] + 1
	}
	return dst
}

// same is how many bytes two slices have in common at the beginning.
func same(a, b []byte) (n int) {
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// sameEnd is the same for the end.
func sameEnd(a, b []byte) (n int) {
	for n < len(a) && n < len(b) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}

// ParseBook decodes a book of a job of so many ranks.
func ParseBook(p []byte, size int) (Book, error) {
	d := decoder{p: p}
	n := d.number(len(p))
	var b Book
	for range n {
		s := Sheet{Transport: string(d.bytes(d.number(255)))}
		s.parse(&d, size)
		b = append(b, s)
	}
	if d.bad || len(d.p) > 0 {
		return nil, ErrBook
	}
	return b, nil
}

func (s *Sheet) parse(d *decoder, size int) {
	next, before := 0, []byte(nil)
	for range d.number(size) {
		r := next + d.number(size)
		front := d.number(len(before))
		back := d.number(len(before) - front)
		middle := d.number(mostAddress - front - back)
		if d.bad || r >= size {
			d.bad = true
			return
		}
		a := make([]byte, 0, front+middle+back)
		a = append(append(a, before[:front]...), d.bytes(middle)...)
		a = append(a, before[len(before)-back:]...)
		s.Ranks, s.Addresses = append(s.Ranks, r), append(s.Addresses, a)
		next, before = r+1, a
	}
	next = 0
	for range d.number(size) {
		first := next + d.number(size)
		last := first + d.number(size)
		if d.bad || last >= size {
			d.bad = true
			return
		}
		s.Asked = append(s.Asked, [2]int{first, last})
		next = last + 1
	}
}

// decoder takes values from the front of p. An impossible value makes it bad.
type decoder struct {
	p   []byte
	bad bool
}

// number takes a number of at most most.
func (d *decoder) number(most int) int {
	v, n := binary.Uvarint(d.p)
	if n <= 0 || most < 0 || v > uint64(most) {
		d.bad, d.p = true, nil
		return 0
	}
	d.p = d.p[n:]
	return int(v)
}

func (d *decoder) bytes(n int) []byte {
	if n > len(d.p) {
		d.bad, d.p = true, nil
		return nil
	}
	b := d.p[:n]
	d.p = d.p[n:]
	return b
}

// Of returns the address of a rank for a transport, nil if it is not in the book.
func (b Book) Of(transport string, rank int) []byte {
	for i := range b {
		if b[i].Transport == transport {
			if k, found := slices.BinarySearch(b[i].Ranks, rank); found {
				return b[i].Addresses[k]
			}
		}
	}
	return nil
}

// asked stands for an address that is to be asked for.
var asked = []byte{}

// Fill writes the addresses of a transport into all, by rank. For one that must be asked for, it
// writes an empty one.
func (b Book) Fill(transport string, all [][]byte) {
	for i := range b {
		s := &b[i]
		if s.Transport != transport {
			continue
		}
		for _, run := range s.Asked {
			for r := run[0]; r <= run[1]; r++ {
				all[r] = asked
			}
		}
		for k, r := range s.Ranks {
			all[r] = s.Addresses[k]
		}
	}
}
