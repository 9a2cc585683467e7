// Package fifo provides lists that grow at their end and shrink at their beginning, and make no garbage once they have had their greatest length.
package fifo

// List is such a list. The zero value is empty.
type List[T any] struct {
	all   []T
	first int // of all
}

// Append adds v at the end.
func (l *List[T]) Append(v T) { l.all = append(l.all, v) }

// Elements are those of the list, valid until it is changed.
func (l *List[T]) Elements() []T { return l.all[l.first:] }

// Len is how many there are.
func (l *List[T]) Len() int { return len(l.all) - l.first }

// Drop removes the first n.
func (l *List[T]) Drop(n int) {
	clear(l.all[l.first : l.first+n])
	if l.first += n; 2*l.first >= len(l.all) { // what is left moves, which is no more than was dropped
		kept := copy(l.all, l.all[l.first:])
		clear(l.all[kept:])
		l.first, l.all = 0, l.all[:kept]
	}
}

// Set replaces the elements by others, which may be a part of them.
func (l *List[T]) Set(elements []T) { l.all, l.first = elements, 0 }
