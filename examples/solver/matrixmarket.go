package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/gorun-mpi/gorun/examples/solver/cg"
)

// The Matrix Market exchange format, coordinate real symmetric:
//
//	%%MatrixMarket matrix coordinate real symmetric
//	% any number of comment lines
//	rows columns entries
//	i j value           (one line an entry, counted from 1, i >= j)
//
// An entry off the diagonal stands for (j, i) too. Blank lines are allowed
// anywhere after the first. The input is not trusted: nothing is allocated
// from a number in it before as much input has been read.

// maxLine bounds a line of the file in bytes; the format's own limit is 1,024.
const maxLine = 4096

// maxRows keeps row numbers within 32 bits.
const maxRows = math.MaxInt32

// readMatrix reads a whole matrix.
func readMatrix(r io.Reader) (*cg.Block, error) {
	in := lines{r: bufio.NewReaderSize(r, maxLine)}
	b, err := in.matrix()
	if err != nil {
		return nil, fmt.Errorf("line %d: %w", in.line, err)
	}
	return b, nil
}

// lines reads a file line by line and counts them.
type lines struct {
	r    *bufio.Reader
	line int
}

// entry is one line of the file, counted from 0.
type entry struct {
	row, col int32
	value    float64
}

func (in *lines) matrix() (*cg.Block, error) {
	if err := in.banner(); err != nil {
		return nil, err
	}
	n, count, err := in.sizes()
	if err != nil {
		return nil, err
	}
	entries := make([]entry, 0, min(count, 1<<16))
	for {
		fields, err := in.fields()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if len(entries) == count {
			return nil, fmt.Errorf("more than the %d entries announced", count)
		}
		e, err := parseEntry(fields, n)
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	if len(entries) < count {
		return nil, fmt.Errorf("the file ends after %d of the %d entries announced", len(entries), count)
	}
	return assemble(n, entries)
}

// banner reads the first line.
func (in *lines) banner() error {
	text, err := in.next()
	if err == io.EOF {
		return errors.New("the file is empty")
	}
	if err != nil {
		return err
	}
	f := bytes.Fields(bytes.ToLower(text))
	if len(f) != 5 || string(f[0]) != "%%matrixmarket" {
		return errors.New("not a Matrix Market file: it does not begin with %%MatrixMarket and four words")
	}
	for i, want := range []string{"matrix", "coordinate", "real", "symmetric"} {
		if string(f[i+1]) != want {
			return fmt.Errorf("a Matrix Market file of kind %q where %q is needed", f[i+1], want)
		}
	}
	return nil
}

// sizes reads the line with rows, columns and number of entries.
func (in *lines) sizes() (n, count int, err error) {
	f, err := in.fields()
	if err == io.EOF {
		return 0, 0, errors.New("the file ends before the line with the sizes")
	}
	if err != nil {
		return 0, 0, err
	}
	if len(f) != 3 {
		return 0, 0, fmt.Errorf("%d numbers where rows, columns and entries are expected", len(f))
	}
	var v [3]int
	for i := range v {
		if v[i], err = strconv.Atoi(string(f[i])); err != nil || v[i] < 0 {
			return 0, 0, fmt.Errorf("%q is not a size", f[i])
		}
	}
	switch {
	case v[0] != v[1]:
		return 0, 0, fmt.Errorf("%d rows and %d columns: a symmetric matrix is square", v[0], v[1])
	case v[0] == 0:
		return 0, 0, errors.New("a matrix without rows")
	case v[0] > maxRows:
		return 0, 0, fmt.Errorf("%d rows, more than %d", v[0], maxRows)
	case v[2] < v[0]:
		return 0, 0, fmt.Errorf("%d entries in %d rows: some diagonal entry is missing", v[2], v[0])
	}
	return v[0], v[2], nil
}

// parseEntry reads the line of one entry of a matrix with n rows.
func parseEntry(f [][]byte, n int) (entry, error) {
	if len(f) != 3 {
		return entry{}, fmt.Errorf("%d fields where row, column and value are expected", len(f))
	}
	row, err := strconv.Atoi(string(f[0]))
	if err != nil || row < 1 || row > n {
		return entry{}, fmt.Errorf("row %q is not within 1..%d", f[0], n)
	}
	col, err := strconv.Atoi(string(f[1]))
	if err != nil || col < 1 || col > n {
		return entry{}, fmt.Errorf("column %q is not within 1..%d", f[1], n)
	}
	if col > row {
		return entry{}, fmt.Errorf("entry (%d, %d) is above the diagonal of a symmetric matrix", row, col)
	}
	v, err := strconv.ParseFloat(string(f[2]), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return entry{}, fmt.Errorf("value %q is not a finite number", f[2])
	}
	return entry{int32(row - 1), int32(col - 1), v}, nil
}

// next returns the next line without its end, valid until the call after.
func (in *lines) next() ([]byte, error) {
	text, err := in.r.ReadSlice('\n')
	if err == io.EOF && len(text) == 0 {
		return nil, io.EOF
	}
	in.line++
	if err == bufio.ErrBufferFull {
		return nil, fmt.Errorf("longer than %d bytes", maxLine)
	}
	if err != nil && err != io.EOF {
		return nil, err
	}
	return bytes.TrimRight(text, "\r\n"), nil
}

// fields returns the words of the next line that is neither blank nor comment.
func (in *lines) fields() ([][]byte, error) {
	for {
		text, err := in.next()
		if err != nil {
			return nil, err
		}
		text = bytes.TrimSpace(text)
		if len(text) > 0 && text[0] != '%' {
			return bytes.Fields(text), nil
		}
	}
}

// assemble mirrors the entries and sorts them by row and column.
func assemble(n int, entries []entry) (*cg.Block, error) {
	all := slices.Grow(entries, len(entries))
	for _, e := range entries {
		if e.row != e.col {
			all = append(all, entry{e.col, e.row, e.value})
		}
	}
	slices.SortFunc(all, func(a, b entry) int {
		if a.row != b.row {
			return int(a.row) - int(b.row)
		}
		return int(a.col) - int(b.col)
	})
	b := &cg.Block{N: n, Ptr: make([]int, n+1), Col: make([]int32, len(all)), Val: make([]float64, len(all))}
	for k, e := range all {
		if k > 0 && all[k-1].row == e.row && all[k-1].col == e.col {
			return nil, fmt.Errorf("entry (%d, %d) is there twice", max(e.row, e.col)+1, min(e.row, e.col)+1)
		}
		b.Col[k], b.Val[k] = e.col, e.value
		b.Ptr[e.row+1]++
	}
	for i := range n {
		b.Ptr[i+1] += b.Ptr[i]
	}
	return b, nil
}
