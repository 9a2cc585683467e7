package sim

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/internal/rank/shared"
	"github.com/gorun-mpi/gorun/rpi"
	"github.com/gorun-mpi/gorun/rpi/mem"
	"github.com/gorun-mpi/gorun/rpi/shm"
	"github.com/gorun-mpi/gorun/rpi/tcp"
)

// interfaces are all that packages rpi and shared declare.
var interfaces = map[string]reflect.Type{
	"rpi.Module":       reflect.TypeFor[rpi.Module](),
	"rpi.LocalModule":  reflect.TypeFor[rpi.LocalModule](),
	"rpi.Asker":        reflect.TypeFor[rpi.Asker](),
	"rpi.Describer":    reflect.TypeFor[rpi.Describer](),
	"rpi.Waiter":       reflect.TypeFor[rpi.Waiter](),
	"rpi.DirectWriter": reflect.TypeFor[rpi.DirectWriter](),
	"rpi.DirectReader": reflect.TypeFor[rpi.DirectReader](),
	"rpi.Sink":         reflect.TypeFor[rpi.Sink](),
	"shared.Boards":    reflect.TypeFor[shared.Boards](),
	"shared.Shortcut":  reflect.TypeFor[shared.Shortcut](),
	"shared.AlikeSink": reflect.TypeFor[shared.AlikeSink](),
}

// TestTwins looks for an ability of a shipped transport that the simulated one lacks, so
// that no schedule would ever meet it. Which abilities there are it reads from sources.
func TestTwins(t *testing.T) {
	names, unnamed := declared(t)
	if s := lacks(names, reflect.TypeFor[fullModule](), shipped()); len(s)+len(unnamed) > 0 {
		t.Error(strings.Join(append(s, unnamed...), "\n"))
	}
}

// TestTwinsSees takes an ability away, and declares one that nobody knows.
func TestTwinsSees(t *testing.T) {
	names, _ := declared(t)
	without := reflect.TypeFor[struct {
		*module
		shortcut
		reader
	}]()
	if s := lacks(names, without, shipped()); len(s) != 2 || !strings.Contains(s[0], "shared.Boards") {
		t.Errorf("a simulated transport without boards: %q", s)
	}
	names["rpi.Collector"] = true
	if s := lacks(names, reflect.TypeFor[fullModule](), shipped()); len(s) != 1 || !strings.Contains(s[0], "rpi.Collector is new") {
		t.Errorf("a new interface: %q", s)
	}
}

// shipped are the transports that users have.
func shipped() []reflect.Type {
	return []reflect.Type{
		reflect.TypeOf(shm.New()), reflect.TypeOf(tcp.New()), reflect.TypeOf(mem.NewFabric(1).Module(0)),
	}
}

// lacks says what a simulated transport has not, in the order of names.
func lacks(names map[string]bool, sim reflect.Type, shipped []reflect.Type) (s []string) {
	for _, name := range slices.Sorted(maps.Keys(names)) {
		what := interfaces[name]
		if what == nil {
			s = append(s, name+" is new: add it to this test, and the ability to the simulated transport")
			continue
		}
		for _, m := range shipped {
			if m.Implements(what) && !sim.Implements(what) {
				s = append(s, fmt.Sprintf("%v is a %s, the simulated transport is none", m, name))
			}
		}
	}
	return s
}

// declared returns the interfaces that packages rpi and shared declare, and where a
// module may be asked for one without a name, which would escape this test.
func declared(t *testing.T) (names map[string]bool, unnamed []string) {
	names = make(map[string]bool)
	for _, dir := range []string{"../../../rpi", "../../rank/shared", "../../rank/engine", "../../rank/shmcoll", "../../rank/backoff", "../../rank/job"} {
		for path, f := range sources(t, dir) {
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.TypeSpec:
					if _, is := n.Type.(*ast.InterfaceType); is && (f.Name.Name == "rpi" || f.Name.Name == "shared") {
						names[f.Name.Name+"."+n.Name.Name] = true
					}
				case *ast.TypeAssertExpr:
					if _, is := n.Type.(*ast.InterfaceType); is {
						unnamed = append(unnamed, path+": an interface without a name is asked for: give it one in package rpi or shared")
					}
				}
				return true
			})
		}
	}
	for name := range interfaces {
		if !names[name] {
			t.Fatalf("%s was not found in the sources", name)
		}
	}
	return names, unnamed
}

// sources parses what a package consists of, without its tests.
func sources(t *testing.T, dir string) map[string]*ast.File {
	paths, err := filepath.Glob(dir + "/*.go")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no sources in %s: %v", dir, err)
	}
	files := make(map[string]*ast.File)
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		if files[path], err = parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution); err != nil {
			t.Fatal(err)
		}
	}
	return files
}
