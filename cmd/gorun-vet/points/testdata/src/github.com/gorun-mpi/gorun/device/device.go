// Package device is as much of gorun's as tests need.
package device

type Array[T any] struct{}

type Use struct{}

func (a *Array[T]) Rows(from, to int) *Array[T] { return a }
func (a *Array[T]) Host() ([]T, error)          { return nil, nil }
func (a *Array[T]) HostW() ([]T, error)         { return nil, nil }
func (a *Array[T]) In() Use                     { return Use{} }
func (a *Array[T]) Out() Use                    { return Use{} }
func (a *Array[T]) InOut() Use                  { return Use{} }

type (
	Device struct{}
	Kernel struct{}
	Event  struct{}
)

func (d *Device) Run(k *Kernel, global, local []int, args ...any) (Event, error) { return Event{}, nil }
