package stdio

import "math"

// Span is a part of the standard input that this process reads: bytes from to
// to, without to.
type Span struct{ From, To int64 }

// Script lists the spans of the input that rank 0 gets in one life, in order. The life that begins
// the job gets all. A life that begins with an image of a whole process gets what that process had
// not taken. A life that begins with a portable image runs from the top: it gets what was taken
// before the first Point, and then what had not been taken at the Point of the image.
type Script []Span

// Rest is the end of a span that is not limited.
const Rest = math.MaxInt64

// WholeInput is all of it.
func WholeInput() Script { return Script{{0, Rest}} }

// First is the first n bytes of a script.
func (s Script) First(n int64) (part Script) {
	for _, p := range s {
		p.To = p.From + min(n, p.To-p.From)
		if n -= p.To - p.From; p.To > p.From {
			part = append(part, p)
		}
	}
	return part
}

// After is a script without its first n bytes.
func (s Script) After(n int64) (part Script) {
	for _, p := range s {
		skip := min(n, p.To-p.From)
		p.From, n = p.From+skip, n-skip
		if p.From < p.To {
			part = append(part, p)
		}
	}
	return part
}

// Then is one script followed by another.
func (s Script) Then(t Script) Script { return append(s[:len(s):len(s)], t...) }

// Begins is the first byte of the input that a script needs.
func (s Script) Begins() int64 {
	from := int64(Rest)
	for _, p := range s {
		from = min(from, p.From)
	}
	return from
}
