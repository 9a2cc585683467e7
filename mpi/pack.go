package mpi

// pack copies the elements of src that b has, moved by at, to dst, as many as go in, and returns the rest of dst.
func pack[T any](b *body, dst, src []T, at int) []T {
	switch {
	case b.inner == nil:
		return dst[copy(dst, src[at:at+b.n]):]
	case b.at != nil:
		for i := range b.inner {
			dst = pack(&b.inner[i], dst, src, at+b.at[i])
		}
		return dst
	case b.inner[0].inner == nil:
		return packRows(b, dst, src, at)
	}
	for i := range b.n {
		dst = pack(&b.inner[0], dst, src, at+i*b.stride)
	}
	return dst
}

// packRows is pack for rows at equal distances. A row of one element, as a column of a matrix has them, costs no call.
func packRows[T any](b *body, dst, src []T, at int) []T {
	length := b.inner[0].n
	if length == 1 {
		n := min(b.n, len(dst))
		for i := range dst[:n] {
			dst[i] = src[at]
			at += b.stride
		}
		return dst[n:]
	}
	for range b.n {
		dst = dst[copy(dst, src[at:at+length]):]
		at += b.stride
	}
	return dst
}

// unpack copies src to the elements of dst that b has, moved by at, until it is over, and returns the rest of src.
func unpack[T any](b *body, dst []T, at int, src []T) []T {
	switch {
	case len(src) == 0:
		return src
	case b.inner == nil:
		return src[copy(dst[at:at+b.n], src):]
	case b.at != nil:
		for i := range b.inner {
			src = unpack(&b.inner[i], dst, at+b.at[i], src)
		}
		return src
	case b.inner[0].inner == nil:
		return unpackRows(b, dst, at, src)
	}
	for i := range b.n {
		src = unpack(&b.inner[0], dst, at+i*b.stride, src)
	}
	return src
}

func unpackRows[T any](b *body, dst []T, at int, src []T) []T {
	length := b.inner[0].n
	if length == 1 {
		n := min(b.n, len(src))
		for _, v := range src[:n] {
			dst[at] = v
			at += b.stride
		}
		return src[n:]
	}
	for range b.n {
		if len(src) == 0 {
			break
		}
		src = src[copy(dst[at:at+length], src):]
		at += b.stride
	}
	return src
}

// distinct reports whether no element belongs to b twice.
func (b *body) distinct() bool {
	if apart, known := b.apart(); known {
		return apart
	}
	if b.size > b.max-b.min {
		return false
	}
	seen := make([]uint64, (b.max-b.min+63)/64)
	return b.mark(seen, -b.min)
}

// apart reports whether no element belongs to b twice, where the bounds alone tell.
func (b *body) apart() (apart, known bool) {
	if b.inner == nil || b.size == 0 {
		return true, true
	}
	for i := range b.inner {
		if apart, known := b.inner[i].apart(); !apart || !known {
			return apart, known
		}
	}
	if b.at == nil {
		return true, abs(b.stride) >= b.inner[0].max-b.inner[0].min
	}
	end := 0 // in order, as most lists are
	for i := range b.inner {
		p := &b.inner[i]
		if i > 0 && b.at[i]+p.min < end {
			return false, false
		}
		end = b.at[i] + p.max
	}
	return true, true
}

// mark notes the elements of b, moved by at, and reports whether none was noted before.
func (b *body) mark(seen []uint64, at int) bool {
	if b.inner == nil {
		for i := at; i < at+b.n; i++ {
			if seen[i/64]&(1<<(i%64)) != 0 {
				return false
			}
			seen[i/64] |= 1 << (i % 64)
		}
		return true
	}
	if b.at != nil {
		for i := range b.inner {
			if !b.inner[i].mark(seen, at+b.at[i]) {
				return false
			}
		}
		return true
	}
	for i := range b.n {
		if !b.inner[0].mark(seen, at+i*b.stride) {
			return false
		}
	}
	return true
}
