package shmcoll

// A turn copies from the caller to this rank's board, and from the boards of others to the caller.

// length returns how many bytes the turn sends.
func (x *Turn) length() int {
	n := len(x.Send)
	if x.SendStride > 0 && n > 0 {
		last := (n - 1) / x.SendStride
		n = last*x.SendLen + min(x.SendLen, n-last*x.SendStride)
	}
	return n + len(x.Tail)
}

// own returns the part of its own line that this rank wants, as it lies in Send. nil means that
// there is none, or that it is not in one piece.
func (x *Turn) own() []byte {
	at, end := x.Off, len(x.Send)
	if x.SendStride > 0 && x.SendLen > 0 {
		at = x.Off/x.SendLen*x.SendStride + x.Off%x.SendLen
		end = min(end, x.Off/x.SendLen*x.SendStride+x.SendLen)
	}
	if at+x.Len > end {
		return nil
	}
	return x.Send[at : at+x.Len]
}

// write copies what the turn sends.
func (t *Team) write(dst []byte) {
	x := t.now.x
	none := -1
	switch {
	case x.Len == 0:
	case x.Own && x.SendStride > 0 && x.Len == x.SendLen:
		none = x.Off / x.SendLen * x.SendStride
	case x.Own && x.SendStride == 0:
		t.copy(dst, x.Send[:x.Off])
		t.copy(dst[x.Off+x.Len:], x.Send[x.Off+x.Len:])
		t.copy(dst[len(x.Send):], x.Tail)
		return
	}
	if x.SendStride <= 0 {
		dst = dst[t.copy(dst, x.Send):]
	}
	for at := 0; at < len(x.Send) && x.SendStride > 0; at += x.SendStride {
		if at == none {
			dst = dst[x.SendLen:]
			continue
		}
		dst = dst[t.copy(dst, x.Send[at:min(at+x.SendLen, len(x.Send))]):]
	}
	t.copy(dst, x.Tail)
}

// keep copies what the caller wants of the payload of the member at place i.
func (t *Team) keep(i int, payload []byte) {
	x := t.now.x
	at := i
	if x.Need == FromOne {
		at = 0
	}
	if x.Len > 0 && x.Combine == nil {
		from, to := payload[x.Off:][:x.Len], x.Into[at*x.Stride:][:x.Len]
		if i == t.me {
			if own := x.own(); own != nil && (x.Own || &own[0] == &to[0]) {
				from = own
			}
		}
		if &from[0] != &to[0] {
			t.copy(to, from)
		}
	}
	if x.TailLen > 0 {
		t.copy(x.TailInto[at*x.TailLen:][:x.TailLen], payload[len(payload)-x.TailLen:])
	}
}

// combine combines len(dst) bytes, from off on, of all payloads.
func (t *Team) combine(dst []byte, off int) {
	x := t.now.x
	parts := t.parts[:0]
	for i := range t.seats {
		s := &t.seats[i]
		parts = append(parts, s.payload(s.at(t.turn), t.turn, x.Want)[off:off+len(dst)])
	}
	if x.Own {
		parts[t.me] = x.own()
	}
	x.Combine.Combine(dst, parts)
	clear(parts)
	t.parts = parts
}

// copy copies to or from a board.
func (t *Team) copy(dst, src []byte) int {
	if t.module == nil || len(src) <= lineBody {
		return copy(dst, src)
	}
	return t.module.Copy(dst, src)
}

// fits reports whether the bytes that the turn names are there and have a place to go.
func (x *Turn) fits(size int) bool {
	if x.Need == FromOne {
		size = 1
	}
	if x.TailLen < 0 || x.TailLen > x.Want || size*x.TailLen > len(x.TailInto) {
		return false
	}
	if x.Combine != nil {
		size = 1
	}
	switch {
	case x.Once && !x.common():
		return false
	case x.Len == 0:
		return true
	case x.Len < 0 || x.Off < 0 || x.Off > x.Want-x.Len || x.Stride < 0 || (size-1)*x.Stride+x.Len > len(x.Into):
		return false
	case x.Need == FromOne:
		return x.Combine == nil && !x.Own
	}
	return !x.Own || x.own() != nil
}
