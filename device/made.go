package device

import (
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/gorun-mpi/gorun/device/provider"
)

// made counts all kernels that the program has made. Devices are chosen by them: one that does not
// run the program's kernels is useless to it, however fast it is.
var made census

// census counts kernels by what a device needs to run them.
type census struct {
	mu      sync.Mutex
	kernels map[need]int
}

// need is what one of a kernel's bodies asks of its device.
type need struct {
	language string
	double   bool
}

func (c *census) add(k *Kernel) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kernels == nil {
		c.kernels = map[need]int{}
	}
	for _, b := range k.bodies {
		c.kernels[need{b.Language, k.double(b)}]++
	}
}

// double reports whether a body computes with float64: the parameters of a Go body tell, or else the word in the source.
func (k *Kernel) double(b provider.Body) bool {
	if k.params == nil {
		return strings.Contains(b.Source, "double")
	}
	return slices.ContainsFunc(k.params, func(t reflect.Type) bool {
		return t.Kind() == reflect.Float64 || t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Float64
	})
}

// best are those of the devices that run the most kernels: all, if the program has made none.
func (c *census) best(infos []Info) (best []Info) {
	c.mu.Lock()
	defer c.mu.Unlock()
	most := 0
	for _, i := range infos {
		runs := c.runs(i)
		if runs > most {
			most, best = runs, nil
		}
		if runs == most {
			best = append(best, i)
		}
	}
	return best
}

// runs is how many of the kernels a device runs. Caller holds mu.
func (c *census) runs(info Info) (n int) {
	library, _, _ := strings.Cut(info.ID, ":")
	for _, p := range providers {
		if p.Name() != library {
			continue
		}
		if n = c.kernels[need{p.Language(), false}]; info.Double {
			n += c.kernels[need{p.Language(), true}]
		}
	}
	return n
}
