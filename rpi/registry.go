package rpi

import (
	"slices"
	"sync"
)

var registry struct {
	sync.Mutex
	names     []string
	factories map[string]func() Module
}

// Register makes a transport known under the name used with -rpi. Transports call it from init. A later
// registration of the same name replaces the first.
func Register(name string, factory func() Module) {
	registry.Lock()
	defer registry.Unlock()
	if registry.factories == nil {
		registry.factories = make(map[string]func() Module)
	}
	if registry.factories[name] == nil {
		registry.names = append(registry.names, name)
	}
	registry.factories[name] = factory
}

// Lookup returns the function that makes a module of the named transport.
func Lookup(name string) (factory func() Module, ok bool) {
	registry.Lock()
	defer registry.Unlock()
	factory, ok = registry.factories[name]
	return factory, ok
}

// Names returns the registered transports, sorted.
func Names() []string {
	registry.Lock()
	defer registry.Unlock()
	names := slices.Clone(registry.names)
	slices.Sort(names)
	return names
}
