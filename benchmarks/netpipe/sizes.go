package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ladder returns NetPIPE's sizes from lo to hi: powers of two and the values half-way between them. Each comes
// with its neighbours at distance perturb, which show effects of alignment or of a round size.
func ladder(lo, hi, perturb int) []int {
	var sizes []int
	add := func(size int) {
		if size >= lo && size <= hi {
			sizes = append(sizes, size)
		}
	}
	for p := 1; p > 0 && p <= hi; p *= 2 {
		for _, size := range [2]int{p, p + p/2} {
			if size > perturb {
				add(size - perturb)
				add(size + perturb)
			}
			add(size)
		}
	}
	if lo == 0 {
		sizes = append(sizes, 0)
	}
	slices.Sort(sizes)
	return slices.Compact(sizes)
}

// maxSize bounds what -sizes asks for: two buffers of it are allocated.
const maxSize = 4 << 30

// parseSizes reads a list such as "8,1024,65536".
func parseSizes(list string) ([]int, error) {
	var sizes []int
	for _, text := range strings.Split(list, ",") {
		size, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || size < 0 || size > maxSize {
			return nil, fmt.Errorf("%q is not a size in bytes up to %d", text, maxSize)
		}
		sizes = append(sizes, size)
	}
	return sizes, nil
}
