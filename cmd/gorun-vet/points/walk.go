package points

import (
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"strings"
)

// path is a variable, or a field of one, of any depth.
type path struct {
	root  types.Object
	chain string       // ".a.b"
	last  types.Object // the field; nil: the variable itself
	elem  string       // fields of its elements, which are looked at apart from each other
}

// whole is the path without fields of elements: what can be registered.
func (p path) whole() path {
	p.elem = ""
	return p
}

// touch is a set of what may come first to a path after the Point: on some ways this, on others that.
type touch uint8

const (
	untouched touch = 1 << iota
	read
	written // all of it
	partly  // elements of it, or by a call that is not followed
)

// state tells what has come first on the ways to a place in the code. A path that is not in it is untouched.
type state map[path]touch

func (s state) of(p path) touch {
	if t, ok := s[p]; ok {
		return t
	}
	return untouched
}

// join is the state where ways meet.
func join(all ...state) state {
	sum := state{}
	for _, s := range all {
		for p := range s {
			for _, other := range all {
				sum[p] |= other.of(p)
			}
		}
	}
	return sum
}

// walker goes through code in the order in which it is carried out, and follows calls within the package. A loop is
// gone through once.
type walker struct {
	*checker
	state  state // nil: no way leads here
	wrote  map[path]bool
	names  map[types.Object]target // parameters, slices of slices and addresses, by what they stand for
	ends   []state                 // of the function being followed, or of the loop
	inside []*types.Func           // being followed
}

func (w *walker) touch(p path, t touch) {
	if t != read {
		w.wrote[p] = true
	}
	if w.state == nil || t == read && w.state.of(p.whole())&(untouched|read) == 0 { // its elements were written
		return
	}
	if now := w.state.of(p); now&untouched != 0 {
		w.state[p] = now&^untouched | t
	}
}

// target is what a name stands for: a path, or a part of it.
type target struct {
	path
	part bool
}

// where resolves an expression that names a variable or field, an address or a part of one.
func (w *walker) where(e ast.Expr) (p path, part, ok bool) {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		v, isVar := w.TypesInfo.ObjectOf(e).(*types.Var)
		if !isVar {
			return p, false, false
		}
		if t, ok := w.names[v]; ok {
			return t.path, t.part, true
		}
		return path{root: v}, false, true
	case *ast.SelectorExpr:
		if s := w.TypesInfo.Selections[e]; s != nil && s.Kind() == types.FieldVal {
			p, part, ok = w.where(e.X)
			for _, f := range fieldsOf(s) {
				if part = part || p.last != nil && w.registered[p.last]; part { // of what is registered as a whole
					p.elem += "." + f.Name()
				} else {
					p.chain, p.last = p.chain+"."+f.Name(), f
				}
			}
			return p, part, ok
		}
		if v, isVar := w.TypesInfo.ObjectOf(e.Sel).(*types.Var); isVar {
			return path{root: v}, false, true
		}
	case *ast.UnaryExpr:
		if e.Op == token.AND {
			return w.where(e.X)
		}
	case *ast.StarExpr:
		return w.where(e.X)
	case *ast.SliceExpr:
		p, _, ok = w.where(e.X)
		return p, true, ok
	case *ast.IndexExpr:
		p, _, ok = w.where(e.X)
		return p, true, ok
	case *ast.CallExpr:
		if array := w.partOf(e); array != nil {
			p, _, ok = w.where(array)
			return p, true, ok
		}
	}
	return p, false, false
}

// fieldsOf are the fields that a selection goes through: those of embedded structs, which it does not name, and its own.
func fieldsOf(s *types.Selection) (all []*types.Var) {
	t := s.Recv()
	for _, i := range s.Index() {
		if p, ok := t.Underlying().(*types.Pointer); ok {
			t = p.Elem()
		}
		f := t.Underlying().(*types.Struct).Field(i)
		all, t = append(all, f), f.Type()
	}
	return all
}

func (w *walker) stmts(list []ast.Stmt) {
	for _, s := range list {
		w.stmt(s)
	}
}

// branch carries out code that may be left out, from a state, and returns how it ends.
func (w *walker) branch(from state, f func()) state {
	w.state = maps.Clone(from)
	f()
	return w.state
}

// meet joins ways; those that lead nowhere do not count.
func (w *walker) meet(all ...state) {
	live := all[:0]
	for _, s := range all {
		if s != nil {
			live = append(live, s)
		}
	}
	if w.state = nil; len(live) > 0 {
		w.state = join(live...)
	}
}

func (w *walker) stmt(s ast.Stmt) {
	switch s := s.(type) {
	case *ast.AssignStmt:
		w.assign(s)
	case *ast.IncDecStmt:
		w.expr(s.X)
		w.set(s.X)
	case *ast.ExprStmt:
		w.expr(s.X)
	case *ast.DeclStmt:
		ast.Inspect(s, func(n ast.Node) bool {
			if v, ok := n.(*ast.ValueSpec); ok {
				for _, e := range v.Values {
					w.expr(e)
				}
			}
			return true
		})
	case *ast.BlockStmt:
		w.stmts(s.List)
	case *ast.LabeledStmt:
		w.stmt(s.Stmt)
	case *ast.IfStmt:
		w.stmt(s.Init)
		w.expr(s.Cond)
		from := w.state
		then := w.branch(from, func() { w.stmt(s.Body) })
		otherwise := w.branch(from, func() { w.stmt(s.Else) })
		w.meet(then, otherwise)
	case *ast.ForStmt:
		w.stmt(s.Init)
		w.expr(s.Cond)
		w.body(func() { w.stmt(s.Body); w.stmt(s.Post) })
	case *ast.RangeStmt:
		if p, part, ok := w.where(s.X); s.Value != nil {
			w.use(s.X)
		} else if !ok || part {
			w.expr(s.X)
		} else if b, basic := w.TypesInfo.TypeOf(s.X).Underlying().(*types.Basic); basic && b.Info()&types.IsInteger != 0 {
			w.touch(p, read)
		}
		w.set(s.Key)
		w.set(s.Value)
		w.body(func() { w.stmt(s.Body) })
	case *ast.SwitchStmt:
		w.stmt(s.Init)
		w.expr(s.Tag)
		w.cases(s.Body)
	case *ast.TypeSwitchStmt:
		w.stmt(s.Init)
		w.stmt(s.Assign)
		w.cases(s.Body)
	case *ast.SelectStmt:
		w.cases(s.Body)
	case *ast.ReturnStmt:
		for _, e := range s.Results {
			w.expr(e)
		}
		w.end()
	case *ast.BranchStmt:
		w.end()
	case *ast.GoStmt:
		w.expr(s.Call)
	case *ast.DeferStmt:
		w.expr(s.Call)
	case *ast.SendStmt:
		w.expr(s.Chan)
		w.expr(s.Value)
	}
}

// end ends a way: by a return, or by leaving or repeating a loop.
func (w *walker) end() {
	if len(w.inside) > 0 && w.state != nil {
		w.ends = append(w.ends, w.state)
	}
	w.state = nil
}

// body carries out the body of a loop, which is taken to be carried out. Whoever leaves it early goes on behind it.
func (w *walker) body(f func()) {
	from, ends := w.state, w.ends
	w.ends = nil
	f()
	if w.state == nil { // all ways leave it early
		w.state = from
	}
	w.ends = append(ends, w.ends...)
}

func (w *walker) cases(body *ast.BlockStmt) {
	from, ways, all := w.state, []state{}, false
	for _, s := range body.List {
		ways = append(ways, w.branch(from, func() {
			switch s := s.(type) {
			case *ast.CaseClause:
				all = all || s.List == nil
				for _, e := range s.List {
					w.expr(e)
				}
				w.stmts(s.Body)
			case *ast.CommClause:
				w.stmt(s.Comm)
				w.stmts(s.Body)
			}
		}))
	}
	if !all {
		ways = append(ways, from)
	}
	w.meet(ways...)
}

func (w *walker) assign(s *ast.AssignStmt) {
	if w.memory(s) {
		return
	}
	aliases := map[int]bool{}
	for i, r := range s.Rhs {
		if len(s.Lhs) == len(s.Rhs) && s.Tok == token.DEFINE && w.alias(s.Lhs[i], r) {
			aliases[i] = true
			continue
		}
		w.expr(r)
	}
	for i, l := range s.Lhs {
		if s.Tok != token.ASSIGN && s.Tok != token.DEFINE { // +=
			w.expr(l)
		}
		if !aliases[i] {
			w.set(l)
		}
	}
}

// alias notes that a new variable is a slice, or the address, of something.
func (w *walker) alias(l, r ast.Expr) bool {
	id, ok := l.(*ast.Ident)
	if !ok {
		return false
	}
	switch x := ast.Unparen(r).(type) {
	case *ast.SliceExpr:
		w.indices(x)
	case *ast.UnaryExpr:
		if x.Op != token.AND {
			return false
		}
	case *ast.CallExpr:
		if w.partOf(x) == nil {
			return false
		}
		w.expr(callArgs(x))
	default:
		return false
	}
	p, part, ok := w.where(r)
	if v := w.TypesInfo.Defs[id]; ok && v != nil {
		w.names[v] = target{p, part}
		return true
	}
	return false
}

func (w *walker) indices(x *ast.SliceExpr) {
	for _, e := range []ast.Expr{x.Low, x.High, x.Max} {
		w.expr(e)
	}
}

// set writes to what an expression names.
func (w *walker) set(l ast.Expr) {
	if l == nil {
		return
	}
	if x, ok := ast.Unparen(l).(*ast.IndexExpr); ok {
		if nameless(x.X) {
			w.expr(x.X) // its bounds
		}
		w.expr(x.Index)
	}
	p, part, ok := w.where(l)
	if !ok {
		return
	}
	if id, plain := ast.Unparen(l).(*ast.Ident); plain {
		v := w.TypesInfo.ObjectOf(id)
		if _, stands := w.names[v]; stands { // the name gets another meaning
			delete(w.names, v)
			return
		}
	}
	if part {
		w.touch(p, partly)
		return
	}
	w.touch(p, written)
}

// expr carries out an expression: reads and calls.
func (w *walker) expr(e ast.Expr) {
	if e == nil {
		return
	}
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			w.follow(nil, func() { w.stmt(n.Body) }) // who is given a function calls it
			return false
		case *ast.CallExpr:
			w.call(n)
			return false
		case *ast.KeyValueExpr:
			w.expr(n.Value)
			return false
		case *ast.IndexExpr:
			if !nameless(n.X) {
				return true
			}
			w.use(n.X)
			w.expr(n.Index)
			return false
		case *ast.SliceExpr: // it is whoever uses the slice who reads
			if _, _, ok := w.where(n.X); !ok {
				return true
			}
			w.indices(n)
			return false
		case *ast.SelectorExpr, *ast.Ident:
			if p, _, ok := w.where(n.(ast.Expr)); ok {
				w.touch(p, read)
				return false
			}
			if s, ok := n.(*ast.SelectorExpr); ok {
				w.expr(s.X)
				return false
			}
		}
		return true
	})
}

// use carries out an expression whose elements are read. Rows of an array and slices of slices are not read before that.
func (w *walker) use(e ast.Expr) {
	w.expr(e)
	if p, _, ok := w.where(e); ok && nameless(e) {
		w.touch(p, read)
	}
}

// nameless reports whether an expression is what a call returns, or a slice of something.
func nameless(e ast.Expr) bool {
	switch ast.Unparen(e).(type) {
	case *ast.CallExpr, *ast.SliceExpr:
		return true
	}
	return false
}

// follow carries out a function: whatever way it ends by, the caller goes on.
func (w *walker) follow(f *types.Func, do func()) {
	ends := w.ends
	w.ends, w.inside = nil, append(w.inside, f)
	do()
	w.meet(append(w.ends, w.state)...)
	w.ends, w.inside = ends, w.inside[:len(w.inside)-1]
}

// reference reports whether somebody who is given a value of the type can change what it refers to.
func reference(t types.Type) bool {
	switch t.Underlying().(type) {
	case *types.Slice, *types.Map, *types.Pointer:
		return true
	}
	return false
}

// depth is how many calls within calls are followed.
const depth = 12

func (w *walker) call(call *ast.CallExpr) {
	if t := w.TypesInfo.Types[call.Fun]; t.IsType() || t.IsBuiltin() {
		w.builtin(call)
		return
	}
	if w.arrayCall(call) {
		return
	}
	f := w.callee(call)
	if sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr); ok && f != nil && f.Signature().Recv() != nil {
		if p, _, ok := w.where(sel.X); !ok {
			w.expr(sel.X)
		} else if w.bodies[f] == nil && !reference(f.Signature().Recv().Type()) {
			w.touch(p, read)
		}
	}
	d := w.bodies[f]
	for _, in := range w.inside {
		if f != nil && in == f {
			d = nil // recursive
		}
	}
	if d == nil || len(w.inside) > depth {
		if !w.elsewhere(call, f) {
			w.unknown(call, f)
		}
		return
	}
	before := maps.Clone(w.names)
	w.bind(call, d)
	w.follow(f, func() { w.stmt(d.Body) })
	w.names = before
}

// bind gives parameters their meaning.
func (w *walker) bind(call *ast.CallExpr, d *ast.FuncDecl) {
	one := func(id *ast.Ident, arg ast.Expr) {
		v := w.TypesInfo.Defs[id]
		p, part, ok := w.where(arg)
		if v == nil || !ok || !reference(v.Type()) {
			w.expr(arg)
			return
		}
		w.names[v] = target{p, part}
	}
	if d.Recv != nil && len(d.Recv.List[0].Names) > 0 {
		if sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr); ok {
			if p, part, ok := w.where(sel.X); ok {
				w.names[w.TypesInfo.Defs[d.Recv.List[0].Names[0]]] = target{p, part}
			}
		}
	}
	i := 0
	for _, field := range d.Type.Params.List {
		for _, name := range field.Names {
			if i < len(call.Args) {
				one(name, call.Args[i])
			}
			i++
		}
	}
	for ; i < len(call.Args); i++ { // of a variadic function
		w.expr(call.Args[i])
	}
}

// builtin carries out calls of the language, and conversions.
func (w *walker) builtin(call *ast.CallExpr) {
	name := ""
	if id, ok := ast.Unparen(call.Fun).(*ast.Ident); ok {
		name = id.Name
	}
	switch name {
	case "len", "cap":
		if _, _, ok := w.where(call.Args[0]); !ok {
			w.expr(call.Args[0])
		}
	case "append":
		for i, a := range call.Args {
			if p, part, ok := w.where(a); i == 0 && ok && part { // a buffer of many, which somebody empties
				w.touch(p, partly)
				continue
			}
			w.use(a)
		}
	case "copy", "clear", "delete":
		for _, a := range call.Args[1:] {
			w.use(a)
		}
		if p, _, ok := w.where(call.Args[0]); ok {
			w.touch(p, partly)
		}
	default:
		for _, a := range call.Args {
			w.expr(a)
		}
	}
}

// unknown carries out a call that is not followed. What it may change counts as changed, but for what messages send.
func (w *walker) unknown(call *ast.CallExpr, f *types.Func) {
	first := true
	for _, a := range call.Args {
		t := w.TypesInfo.TypeOf(a)
		p, _, ok := w.where(a)
		if !ok || t == nil || !reference(t) {
			w.expr(a)
			continue
		}
		mpi := from(f, mpiPath)
		name := ""
		if f != nil {
			name = f.Name()
		}
		if mpi && (strings.HasSuffix(name, "InPlace") || first && !strings.Contains(name, "Recv") && !strings.Contains(name, "cast")) {
			w.touch(p, read)
		}
		w.touch(p, partly)
		if mpi && !types.Identical(t, w.TypesInfo.TypeOf(call.Args[0])) {
			first = false
		}
	}
}
