package provider

import (
	"cmp"
	"slices"
	"sync"
)

var registry struct {
	sync.Mutex
	ranked []ranked
}

type ranked struct {
	Provider
	rank int
}

// Register makes a provider known under its name. Providers call it from init. Of those that have a device,
// the one with the lowest rank is used unless -param rdma.provider= names another. A later registration of the same name replaces the first.
func Register(p Provider, rank int) {
	registry.Lock()
	defer registry.Unlock()
	registry.ranked = slices.DeleteFunc(registry.ranked, func(r ranked) bool { return r.Name() == p.Name() })
	registry.ranked = append(registry.ranked, ranked{p, rank})
	slices.SortStableFunc(registry.ranked, func(a, b ranked) int { return cmp.Compare(a.rank, b.rank) })
}

// All returns the registered providers, the one with the lowest rank first.
func All() []Provider {
	registry.Lock()
	defer registry.Unlock()
	all := make([]Provider, len(registry.ranked))
	for i, r := range registry.ranked {
		all[i] = r.Provider
	}
	return all
}

// Lookup returns the provider of that name.
func Lookup(name string) (Provider, bool) {
	for _, p := range All() {
		if p.Name() == name {
			return p, true
		}
	}
	return nil, false
}
