package points

import (
	"fmt"
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// after carries out a loop from its Point to its Point.
func (c *checker) after(l *loop) *walker {
	w := &walker{checker: c, state: state{}, wrote: map[path]bool{}, names: map[types.Object]target{}}
	at := 0
	for i, s := range l.body.List {
		if l.point != nil && s.Pos() <= l.point.Pos() && l.point.Pos() < s.End() {
			at = i + 1
		}
	}
	w.stmts(l.body.List[at:])
	switch s := l.stmt.(type) {
	case *ast.ForStmt:
		w.stmt(s.Post)
		w.expr(s.Cond)
	case *ast.RangeStmt:
		w.set(s.Key)
		w.set(s.Value)
	}
	w.stmts(l.body.List[:at])
	return w
}

// live are the paths that the loop changes and that are read after the Point before they are written, in the order of
// their names.
func (c *checker) live(l *loop) (all []path) {
	w := c.after(l)
	for p, t := range w.state {
		switch {
		case t&read == 0, t&(written|partly) != 0, !w.wrote[p]:
		case l.body.Pos() <= p.root.Pos() && p.root.Pos() < l.body.End(): // of one iteration
		case !c.around(l, p.root), c.registered[p.root], p.last != nil && c.registered[p.last], !registrable(p.typ(), nil):
		default:
			all = append(all, p.whole())
		}
	}
	slices.SortFunc(all, func(a, b path) int { return strings.Compare(a.name(), b.name()) })
	return slices.Compact(all)
}

// around reports whether a variable is there before the loop: one of the function, or of the package.
func (c *checker) around(l *loop, v types.Object) bool {
	if v.Parent() == c.Pkg.Scope() {
		return true
	}
	if f, ok := l.stmt.(*ast.ForStmt); ok && f.Init != nil && f.Init.Pos() <= v.Pos() && v.Pos() < f.Init.End() {
		// What begins with the loop and does not count it is found again, from its beginning.
		return f.Cond != nil && uses(c, f.Cond, v) || f.Post != nil && uses(c, f.Post, v)
	}
	return l.decl.Pos() <= v.Pos() && v.Pos() < l.body.Pos()
}

func (p path) name() string { return p.root.Name() + p.chain }

func (p path) typ() types.Type {
	if p.last != nil {
		return p.last.Type()
	}
	return p.root.Type()
}

// registrable reports whether Register takes a type, MarshalBinary aside.
func registrable(t types.Type, outer []types.Type) bool {
	if slices.ContainsFunc(outer, func(o types.Type) bool { return types.Identical(o, t) }) {
		return true
	}
	outer = append(outer, t)
	if isArray(t) {
		return true
	}
	switch u := t.Underlying().(type) {
	case *types.Basic:
		return u.Kind() != types.Uintptr && u.Kind() != types.UnsafePointer
	case *types.Slice:
		return registrable(u.Elem(), outer)
	case *types.Array:
		return registrable(u.Elem(), outer)
	case *types.Map:
		return registrable(u.Key(), outer) && registrable(u.Elem(), outer)
	case *types.Struct:
		for i := range u.NumFields() {
			if !registrable(u.Field(i).Type(), outer) {
				return false
			}
		}
		return true
	}
	return false
}

// checkState looks at a loop with a Point.
func (c *checker) checkState(l *loop) {
	if len(c.registered) == 0 && l.init() == nil {
		// Nothing is registered here; -cr=auto takes whole processes then. Somebody else may register for it.
		return
	}
	if r, ok := l.stmt.(*ast.RangeStmt); ok {
		c.Reportf(r.Pos(), "a restarted program begins this range anew: have a counter that is registered, as in for ; i < n; i++")
	}
	for _, p := range c.live(l) {
		d := analysis.Diagnostic{Pos: l.point.Pos(), Message: fmt.Sprintf("%s is live at this Point and not registered: after a restart it has the value that the program sets before the loop", p.name())}
		if f, ok := c.fix(l, []path{p}, false); ok {
			d.SuggestedFixes = []analysis.SuggestedFix{f}
		}
		c.Report(d)
	}
	c.reportDead(l)
}

// reportDead reports variables of the function that are registered and always written before they are read.
func (c *checker) reportDead(l *loop) {
	w := c.after(l)
	for p, t := range w.state {
		if p.last != nil || t != written || !c.registered[p.root] || !c.around(l, p.root) || p.root.Parent() == c.Pkg.Scope() || c.readBefore(l, p.root) {
			continue
		}
		c.Reportf(l.point.Pos(), "%s is registered and dead at this Point: it is written before it is read", p.name())
	}
}

// readBefore reports whether a variable is used before the loop, or to begin it, otherwise than by its address: a restarted program
// reads there what was saved. Uses in functions within count, too.
func (c *checker) readBefore(l *loop, v types.Object) (yes bool) {
	if f, ok := l.stmt.(*ast.ForStmt); ok && f.Cond != nil && uses(c, f.Cond, v) {
		return true
	}
	ast.Inspect(l.decl, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.UnaryExpr:
			if n.Op.String() == "&" {
				return false
			}
		case *ast.AssignStmt:
			for _, r := range n.Rhs {
				if uses(c, r, v) && n.End() < l.stmt.Pos() {
					yes = true
				}
			}
			return n.End() >= l.stmt.Pos()
		case *ast.Ident:
			if c.TypesInfo.Uses[n] == v && n.Pos() < l.stmt.Pos() {
				yes = true
			}
		}
		return !yes
	})
	return yes
}

func uses(c *checker, n ast.Node, v types.Object) (yes bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		if u, ok := n.(*ast.UnaryExpr); ok && u.Op.String() == "&" {
			return false
		}
		id, ok := n.(*ast.Ident)
		yes = yes || ok && c.TypesInfo.Uses[id] == v
		return !yes
	})
	return yes
}

// reportLoops reports loops with messages in a program without Points. If there are several there is no fix: what the later ones
// need must be registered before the first Point of the earlier ones, and which that is nobody knows here.
func (c *checker) reportLoops(all []*loop) {
	for _, l := range all {
		c.reportLoop(l, len(all) == 1)
	}
}

func (c *checker) reportLoop(l *loop, alone bool) {
	d := analysis.Diagnostic{Pos: l.stmt.Pos(), Message: "a loop with messages and no Point: the program cannot have portable images"}
	live := c.live(l)
	if len(live) > 0 {
		var names []string
		for _, p := range live {
			names = append(names, p.name())
		}
		d.Message += "; to be registered: " + strings.Join(names, ", ")
	}
	if !alone {
		d.Message += "; it is not the only one: register what all of them need before the first Point of any"
	} else if f, ok := c.fix(l, live, true); ok {
		d.SuggestedFixes = []analysis.SuggestedFix{f}
	}
	c.Report(d)
}
