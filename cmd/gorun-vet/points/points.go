// Package points is an analyzer of programs that register their state (package cr). It reports
//
//   - a loop with messages in a program that has no Point at all: it cannot have portable images;
//   - a variable that is live at a Point and not registered: what it holds when the image is taken is read after the
//     Point before it is written, and the loop changes it, so a restarted program would go on with another value;
//   - a loop with a Point whose counter cannot be registered: for i := range n;
//   - a registered variable that is dead at the Point: it is always written before it is read.
//
// It follows calls within a package, fields of structs by name, and slices of slices. Of exported functions of other packages that import mpi
// or cr it knows what they do to each argument as a whole. Where it cannot follow, as with
// calls of other packages and functions in variables, it is silent: an element that is written counts as the whole for
// what is live, and as nothing for what is dead. So it finds less than there is, and what it finds is worth a look.
//
// An Array of package dist or device counts as what it holds. Its rows are parts of it, as slices of a slice are; In, Out and InOut say what a kernel
// does, and the slices that Host, HostW, Own and Row return are followed. What dist.Held or dist.Over is made of is registered by it.
// So is what comes to Register on a way: see carried.
//
// Packages that do not import cr are not looked at, unless -any is given. The fixes register what is missing, before
// the loop, and put a Point at the beginning of its body. There is none where it would be wrong: see fix and reportLoops.
package points

import (
	"go/ast"
	"go/types"
	"regexp"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// Analyzer is the analyzer.
var Analyzer = &analysis.Analyzer{
	Name:      "points",
	Doc:       "report loops with messages and no cr.Point, and variables that a Point lacks or does not need",
	URL:       "https://pkg.go.dev/github.com/gorun-mpi/gorun/cmd/gorun-vet/points",
	Run:       run,
	FactTypes: []analysis.Fact{new(summary), new(effects)},
}

var all bool

func init() {
	Analyzer.Flags.BoolVar(&all, "any", false, "look at programs that do not import package cr, too")
}

const (
	crPath  = "github.com/gorun-mpi/gorun/cr"
	mpiPath = "github.com/gorun-mpi/gorun/mpi"
)

// summary says what a function does, with all that it calls.
type summary struct{ Messages, Point bool }

func (*summary) AFact() {}

func (s *summary) String() string {
	var w []string
	if s.Messages {
		w = append(w, "messages")
	}
	if s.Point {
		w = append(w, "Point")
	}
	return strings.Join(w, " ")
}

// checker is the analysis of one package.
type checker struct {
	*analysis.Pass
	bodies     map[*types.Func]*ast.FuncDecl
	does       map[*types.Func]*summary
	registered map[types.Object]bool // variables and fields of which &x is registered
	under      map[*types.Func]bool  // called from within a loop with messages
	labeled    map[ast.Stmt]bool     // loops that have a label
}

func run(pass *analysis.Pass) (any, error) {
	if p := pass.Pkg.Path(); p == crPath || p == mpiPath {
		return nil, nil // calls of these are known by name
	}
	if !imports(pass.Pkg, crPath) && !imports(pass.Pkg, mpiPath) {
		return nil, nil
	}
	c := &checker{Pass: pass, bodies: map[*types.Func]*ast.FuncDecl{}, does: map[*types.Func]*summary{}, registered: map[types.Object]bool{}, under: map[*types.Func]bool{}, labeled: map[ast.Stmt]bool{}}
	c.summarize()
	c.exportEffects()
	if !all && !imports(pass.Pkg, crPath) {
		return nil, nil
	}
	c.findRegistered()
	pointed := c.pointed()
	for _, d := range c.bodies {
		c.loops(d.Body, func(l *loop) { c.underLoop(l.body) })
	}
	var lacking []*loop
	for f, d := range c.bodies {
		if strings.HasSuffix(pass.Fset.Position(d.Pos()).Filename, "_test.go") {
			continue
		}
		c.loops(d.Body, func(l *loop) {
			l.decl = d
			switch {
			case l.point != nil:
				c.checkState(l)
			case !pointed && !c.under[f] && l.messages && !c.overRanks(l):
				lacking = append(lacking, l)
			}
		})
	}
	c.reportLoops(lacking)
	return nil, nil
}

func imports(p *types.Package, path string) bool {
	for _, i := range p.Imports() {
		if i.Path() == path {
			return true
		}
	}
	return false
}

// callee is the function that a call names, nil if it is in a variable.
func (c *checker) callee(call *ast.CallExpr) *types.Func {
	fun := ast.Unparen(call.Fun)
	switch x := fun.(type) { // of a generic function
	case *ast.IndexExpr:
		fun = x.X
	case *ast.IndexListExpr:
		fun = x.X
	}
	var id *ast.Ident
	switch x := fun.(type) {
	case *ast.Ident:
		id = x
	case *ast.SelectorExpr:
		id = x.Sel
	default:
		return nil
	}
	f, _ := c.TypesInfo.Uses[id].(*types.Func)
	if f != nil {
		f = f.Origin()
	}
	return f
}

// from reports whether a function belongs to a package.
func from(f *types.Func, path string) bool {
	return f != nil && f.Pkg() != nil && f.Pkg().Path() == path
}

func isPoint(f *types.Func) bool { return from(f, crPath) && f.Name() == "Point" }

// exchange matches the names of calls that exchange messages, or wait for some: MPI's, with what this language adds (SendValue, WaitallInto).
var exchange = regexp.MustCompile(`^(?:(?i:i?(?:send|ssend|bsend|rsend|m?recv|m?probe|bcast|barrier|reduce|allreduce|gather|allgather|scatter|alltoall|scan|exscan|neighbor))|Exchange|Start|Wait|Test|Map$|RunPool$|Submit$)`)

// prepares matches those of them that only prepare, compute or tell: SendInit, ReduceLocal, a graph's Neighbors.
var prepares = regexp.MustCompile(`Init$|^ReduceLocal$|^Neighbors$`)

func isMessage(f *types.Func) bool {
	return from(f, mpiPath) && exchange.MatchString(f.Name()) && !prepares.MatchString(f.Name())
}

// summarize finds what every function of the package does, and tells packages that import it.
func (c *checker) summarize() {
	for _, file := range c.Files {
		for _, d := range file.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && d.Body != nil {
				if f, ok := c.TypesInfo.Defs[d.Name].(*types.Func); ok {
					c.bodies[f], c.does[f] = d, &summary{}
				}
			}
		}
	}
	for changed := true; changed; {
		changed = false
		for f, d := range c.bodies {
			s := c.effect(d.Body)
			if s != *c.does[f] {
				*c.does[f], changed = s, true
			}
		}
	}
	for f, s := range c.does {
		if *s != (summary{}) {
			c.ExportObjectFact(f, s)
		}
	}
}

// effect is what the calls in some code do.
func (c *checker) effect(n ast.Node) (s summary) {
	ast.Inspect(n, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			one := c.ofCall(c.callee(call))
			s.Messages, s.Point = s.Messages || one.Messages, s.Point || one.Point
		}
		return true
	})
	return s
}

func (c *checker) ofCall(f *types.Func) (s summary) {
	switch {
	case f == nil:
	case isPoint(f):
		s.Point = true
	case isMessage(f):
		s.Messages = true
	case c.does[f] != nil:
		s = *c.does[f]
	default:
		c.ImportObjectFact(f, &s)
	}
	return s
}

// pointed reports whether the package has a Point, or calls something that has.
func (c *checker) pointed() bool {
	for _, s := range c.does {
		if s.Point {
			return true
		}
	}
	return false
}

// findRegistered finds which variables and fields are registered: their addresses are given to Register, or are in a
// map that is given to somebody who registers what is in it.
func (c *checker) findRegistered() {
	note := func(e ast.Expr) (whole bool) {
		if u, ok := ast.Unparen(e).(*ast.UnaryExpr); ok && u.Op.String() == "&" {
			switch x := ast.Unparen(u.X).(type) {
			case *ast.Ident:
				c.registered[c.TypesInfo.ObjectOf(x)] = true
			case *ast.SelectorExpr:
				c.registered[c.TypesInfo.ObjectOf(x.Sel)] = true
			}
			return true
		} else if id, ok := ast.Unparen(e).(*ast.Ident); ok { // already a pointer
			c.registered[c.TypesInfo.ObjectOf(id)] = true
		} else if s, ok := ast.Unparen(e).(*ast.SelectorExpr); ok && isArray(c.TypesInfo.TypeOf(s)) {
			c.registered[c.TypesInfo.ObjectOf(s.Sel)] = true
			return true
		}
		return false
	}
	for _, file := range c.Files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				c.held(n, note)
				if f := c.callee(n); f != nil && strings.Contains(f.Name(), "Register") && len(n.Args) > 1 {
					ast.Inspect(n.Args[1], func(n ast.Node) bool { // also one that is wrapped
						e, ok := n.(ast.Expr)
						return !ok || !note(e) // of &m.x not m
					})
				}
			case *ast.KeyValueExpr:
				note(n.Value)
			}
			return true
		})
	}
	c.findCarried()
}
