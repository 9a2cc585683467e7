package state

import "fmt"

// Watched is a file that an inotify descriptor watches: one with a name, or what is open as a descriptor
// of the same process and has none any more.
type Watched struct {
	Number int    `json:"number"` // by which its events name it
	Mask   uint32 `json:"mask"`   // as for inotify_add_watch
	Path   string `json:"path,omitempty"`
	Inode  uint64 `json:"inode,omitempty"`
	Mode   uint32 `json:"mode,omitempty"`
	Of     *int   `json:"of,omitempty"`
}

// MaxWatched bounds their numbers: all before are used up to reach one.
const MaxWatched = 1 << 20

// validWatched checks them.
func (f *File) validWatched(byFD map[int]*File) error {
	last := 0
	for _, w := range f.Watched {
		if w.Number <= last || w.Number > MaxWatched {
			return fmt.Errorf("watch %d after %d", w.Number, last)
		}
		last = w.Number
		if w.Of == nil {
			if err := validPath(w.Path); err != nil {
				return fmt.Errorf("watch %d: %w", w.Number, err)
			}
		} else if byFD[*w.Of] == nil || w.Path != "" {
			return fmt.Errorf("watch %d: descriptor %d", w.Number, *w.Of)
		}
	}
	return nil
}
