// Package cr stands for the real one.
package cr

import "github.com/gorun-mpi/gorun/mpi"

type Registry struct{}

func On(c *mpi.Comm) *Registry                          { return nil }
func (r *Registry) Point() error                        { return nil }
func (r *Registry) Register(name string, ptr any) error { return nil }
func Point() error                                      { return nil }
func Register(name string, ptr any) error               { return nil }
