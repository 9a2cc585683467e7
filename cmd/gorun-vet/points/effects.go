package points

import (
	"go/ast"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// effects says what an exported function does to what it is given, with all that it calls, for packages that import its own: a letter for
// each parameter, the receiver first.
type effects struct{ Of string }

// The letters.
const (
	value    = '-' // it gets a copy
	none     = 'n' // neither reads nor changes
	reads    = 'r' // and leaves it
	changes  = 'w' // or a part of it, which it does not read before
	both     = 'b' // reads, and changes
	replaces = 'a' // writes all of it first
)

func (*effects) AFact() {}

func (e *effects) String() string { return "effects " + e.Of }

var _ analysis.Fact = new(effects)

// exportEffects tells packages that import this one.
func (c *checker) exportEffects() {
	for f, d := range c.bodies {
		if f.Exported() {
			if of := c.effects(f, d); strings.Trim(of, string(value)) != "" {
				c.ExportObjectFact(f, &effects{of})
			}
		}
	}
}

// effects carries out a function.
func (c *checker) effects(f *types.Func, d *ast.FuncDecl) string {
	w := &walker{checker: c, state: state{}, wrote: map[path]bool{}, names: map[types.Object]target{}}
	w.follow(f, func() { w.stmt(d.Body) })
	var of strings.Builder
	one := func(v *types.Var) {
		if v == nil || !reference(v.Type()) {
			of.WriteByte(value)
			return
		}
		of.WriteByte(w.letter(v))
	}
	if r := f.Signature().Recv(); r != nil {
		one(r)
	}
	for v := range f.Signature().Params().Variables() {
		one(v)
	}
	return of.String()
}

// letter is what has been done to a parameter.
func (w *walker) letter(v *types.Var) byte {
	var first touch
	for p, t := range w.state {
		if p.root == v {
			first |= t
		}
	}
	wrote := false
	for p := range w.wrote {
		wrote = wrote || p.root == v
	}
	switch {
	case first&read != 0 && wrote:
		return both
	case first&read != 0:
		return reads
	case w.state[path{root: v}] == written:
		return replaces
	case wrote:
		return changes
	}
	return none
}

// elsewhere carries out a call of a function of another package whose effects are known, and reports whether they are.
func (w *walker) elsewhere(call *ast.CallExpr, f *types.Func) bool {
	var e effects
	if f == nil || f.Pkg() == w.Pkg || !w.ImportObjectFact(f, &e) {
		return false
	}
	args, of := call.Args, e.Of
	if f.Signature().Recv() != nil {
		if sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr); ok {
			w.affect(sel.X, of[0])
		}
		of = of[1:]
	}
	for i, a := range args {
		letter := byte(value)
		if len(of) > 0 {
			letter = of[min(i, len(of)-1)] // the last may be variadic
		}
		w.affect(a, letter)
	}
	return true
}

// affect does to an argument what a letter says.
func (w *walker) affect(arg ast.Expr, letter byte) {
	p, part, ok := w.where(arg)
	switch {
	case !ok, letter == value && !reference(w.TypesInfo.TypeOf(arg)):
		w.expr(arg)
		return
	case letter == value: // an interface holds it: nobody knows
		letter = changes
	}
	if call, isCall := ast.Unparen(arg).(*ast.CallExpr); isCall {
		w.expr(callArgs(call))
	}
	switch letter {
	case reads:
		w.touch(p, read)
	case both:
		w.touch(p, read)
		w.touch(p, partly)
	case replaces:
		if !part {
			w.touch(p, written)
			return
		}
		w.touch(p, partly)
	case changes:
		w.touch(p, partly)
	}
}
