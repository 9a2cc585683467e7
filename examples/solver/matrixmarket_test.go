package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
)

const small = `%%MatrixMarket matrix coordinate real symmetric
% a comment

3 3 5
1 1 4
2 1 -1.5
% in between
2 2 5e0
3 3 6
3 2 -0.25
`

func TestReadMatrix(t *testing.T) {
	b, err := readMatrix(strings.NewReader(small))
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(b.N, b.Ptr, b.Col, b.Val)
	want := "3 [0 2 5 7] [0 1 0 1 2 1 2] [4 -1.5 -1.5 5 -0.25 -0.25 6]"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestReadMatrixRefuses(t *testing.T) {
	const head = "%%MatrixMarket matrix coordinate real symmetric\n"
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "empty"},
		{"other file", "PK\x03\x04", "not a Matrix Market file"},
		{"array", "%%MatrixMarket matrix array real symmetric\n", `"array"`},
		{"complex", "%%MatrixMarket matrix coordinate complex symmetric\n", `"complex"`},
		{"general", "%%MatrixMarket matrix coordinate real general\n", `"general"`},
		{"no sizes", head, "ends before"},
		{"two sizes", head + "3 3\n", "line 2: 2 numbers"},
		{"negative", head + "-3 -3 3\n", "not a size"},
		{"not square", head + "3 4 5\n", "square"},
		{"no rows", head + "0 0 0\n", "without rows"},
		{"too many rows", head + "3000000000 3000000000 3000000000\n", "more than"},
		{"huge and few", head + "2000000000 2000000000 3\n", "diagonal entry is missing"},
		{"huge count", head + "3 3 9000000000000000000\n1 1 1\n", "ends after 1 of"},
		{"overflow", head + "3 3 99999999999999999999\n", "not a size"},
		{"short", head + "2 2 2\n1 1 1\n", "ends after 1 of the 2"},
		{"long", head + "1 1 1\n1 1 1\n1 1 1\n", "more than the 1"},
		{"row 0", head + "1 1 1\n0 1 1\n", `row "0"`},
		{"row n+1", head + "1 1 1\n2 1 1\n", `row "2"`},
		{"column 0", head + "1 1 1\n1 0 1\n", `column "0"`},
		{"upper", head + "2 2 2\n1 2 1\n", "above the diagonal"},
		{"twice", head + "2 2 3\n1 1 1\n2 1 5\n2 1 5\n", "there twice"},
		{"nan", head + "1 1 1\n1 1 nan\n", "finite"},
		{"inf", head + "1 1 1\n1 1 1e999\n", "finite"},
		{"pattern", head + "1 1 1\n1 1\n", "2 fields"},
		{"long line", head + strings.Repeat("x", 5000), "longer than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := readMatrix(strings.NewReader(c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

// Whatever is accepted is a well-formed symmetric matrix.
func FuzzReadMatrix(f *testing.F) {
	f.Add([]byte(small))
	f.Add([]byte("%%MatrixMarket matrix coordinate real symmetric\n1 1 1\n1 1 1\n"))
	f.Add([]byte("%%MatrixMarket matrix coordinate real symmetric\r\n2 2 3\r\n2 2 1\r\n2 1 -0\r\n1 1 1e-400"))
	f.Fuzz(func(t *testing.T, text []byte) {
		b, err := readMatrix(bytes.NewReader(text))
		if err != nil {
			return
		}
		if b.N < 1 || len(b.Ptr) != b.N+1 || b.Ptr[b.N] != len(b.Col) || len(b.Col) != len(b.Val) {
			t.Fatalf("malformed: n %d, %d pointers, %d columns, %d values", b.N, len(b.Ptr), len(b.Col), len(b.Val))
		}
		at := make(map[[2]int32]float64)
		for i := range b.N {
			for k := b.Ptr[i]; k < b.Ptr[i+1]; k++ {
				if k > b.Ptr[i] && b.Col[k] <= b.Col[k-1] {
					t.Fatalf("row %d is not ascending", i)
				}
				at[[2]int32{int32(i), b.Col[k]}] = b.Val[k]
			}
		}
		for p, v := range at {
			if w, ok := at[[2]int32{p[1], p[0]}]; !ok || w != v {
				t.Fatalf("(%d, %d) is %g, its mirror image %g", p[0], p[1], v, w)
			}
		}
	})
}

func BenchmarkReadMatrix(b *testing.B) {
	text := tower
	if name := os.Getenv("GORUN_MATRIX"); name != "" {
		var err error
		if text, err = os.ReadFile(name); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := readMatrix(bytes.NewReader(text)); err != nil {
			b.Fatal(err)
		}
	}
}
