package state

import (
	"encoding/json"
	"slices"

	"github.com/gorun-mpi/gorun/internal/system/rawstring"
)

// Encode is what Read decodes.
func (s *State) Encode() ([]byte, error) { return json.Marshal(s.each(rawstring.Escape)) }

// each returns s with what f makes of every name of a file, and of what the
// program calls itself: these are bytes, and JSON is UTF-8 text.
func (s *State) each(f func(string) string) State {
	c := *s
	c.Exe, c.Dir, c.Comm = f(c.Exe), f(c.Dir), f(c.Comm)
	c.Regions, c.VDSO.VVar = slices.Clone(c.Regions), slices.Clone(c.VDSO.VVar)
	for _, regions := range [][]Region{c.Regions, c.VDSO.VVar} {
		for i := range regions {
			regions[i].Path = f(regions[i].Path)
		}
	}
	c.Threads, c.Files = slices.Clone(c.Threads), slices.Clone(c.Files)
	for i := range c.Threads {
		c.Threads[i].Comm = f(c.Threads[i].Comm)
	}
	for i := range c.Files {
		c.Files[i].Path = f(c.Files[i].Path)
		c.Files[i].Watched = slices.Clone(c.Files[i].Watched)
		for j := range c.Files[i].Watched {
			c.Files[i].Watched[j].Path = f(c.Files[i].Watched[j].Path)
		}
	}
	c.Ended = slices.Clone(c.Ended)
	for i := range c.Ended {
		c.Ended[i].Name = f(c.Ended[i].Name)
	}
	return c
}
