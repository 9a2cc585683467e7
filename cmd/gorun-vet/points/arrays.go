package points

import (
	"go/ast"
	"go/token"
	"go/types"
)

const (
	devicePath = "github.com/gorun-mpi/gorun/device"
	distPath   = "github.com/gorun-mpi/gorun/dist"
)

// isArray reports whether a type is a pointer to an Array of package dist or device, or to a Grid of dist. Such a pointer is registered as it is, and stands for what
// the array holds.
func isArray(t types.Type) bool {
	p, ok := t.(*types.Pointer)
	if !ok {
		return false
	}
	n, ok := p.Elem().(*types.Named)
	if !ok || n.Obj().Pkg() == nil {
		return false
	}
	switch n.Obj().Pkg().Path() {
	case devicePath:
		return n.Obj().Name() == "Array"
	case distPath:
		return n.Obj().Name() == "Array" || n.Obj().Name() == "Grid"
	}
	return false
}

// method returns the array and the method of a call of one.
func (c *checker) method(call *ast.CallExpr) (array ast.Expr, name string) {
	sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !ok {
		return nil, ""
	}
	if s := c.TypesInfo.Selections[sel]; s == nil || s.Kind() != types.MethodVal || !isArray(c.TypesInfo.TypeOf(sel.X)) {
		return nil, ""
	}
	return sel.X, sel.Sel.Name
}

// partOf returns the array that a call returns some rows of: another array, or a slice of its memory.
func (c *checker) partOf(call *ast.CallExpr) ast.Expr {
	switch array, name := c.method(call); name {
	case "Own", "Row":
		return array
	case "Rows":
		if len(call.Args) > 0 { // those of package dist tell which rows are where
			return array
		}
	}
	return nil
}

// arrayCall carries out a call of a method of an array, and reports whether it was one.
func (w *walker) arrayCall(call *ast.CallExpr) bool {
	array, name := w.method(call)
	if array == nil {
		return false
	}
	for _, a := range call.Args {
		w.expr(a)
	}
	p, part, ok := w.where(array)
	if !ok {
		w.expr(array)
		return true
	}
	switch name {
	case "In":
		w.touch(p, read)
	case "Out":
		if part {
			w.touch(p, partly)
		} else {
			w.touch(p, written)
		}
	case "Gather":
		w.touch(p, read)
	case "InOut", "Exchange", "Start", "Swap", "Host", "HostW": // whoever gets the slice, and is not followed, may do both
		w.touch(p, read)
		w.touch(p, partly)
	}
	return true
}

// memory notes that a new variable is the memory of an array: v, err := a.Host(). Who uses v reads or writes.
func (w *walker) memory(s *ast.AssignStmt) bool {
	if len(s.Lhs) != 2 || len(s.Rhs) != 1 || s.Tok != token.DEFINE {
		return false
	}
	call, ok := ast.Unparen(s.Rhs[0]).(*ast.CallExpr)
	id, named := s.Lhs[0].(*ast.Ident)
	if !ok || !named {
		return false
	}
	array, name := w.method(call)
	if name != "Host" && name != "HostW" {
		return false
	}
	p, _, ok := w.where(array)
	v := w.TypesInfo.Defs[id]
	if !ok || v == nil {
		return false
	}
	w.expr(callArgs(array))
	w.names[v] = target{p, true}
	w.set(s.Lhs[1])
	return true
}

// callArgs is an expression whose calls are to be carried out: the bounds of Rows. Nothing else is in where's.
func callArgs(array ast.Expr) ast.Expr {
	if call, ok := ast.Unparen(array).(*ast.CallExpr); ok {
		return &ast.CompositeLit{Elts: call.Args}
	}
	return nil
}

// held notes that the rows which dist.Held is given are registered with what it returns.
func (c *checker) held(call *ast.CallExpr, note func(ast.Expr) bool) {
	if f := c.callee(call); !from(f, distPath) || f.Name() != "Held" && f.Name() != "Over" || len(call.Args) == 0 {
		return
	}
	e := ast.Unparen(call.Args[len(call.Args)-1])
	for {
		inner, ok := e.(*ast.CallExpr)
		if !ok || c.partOf(inner) == nil {
			break
		}
		e = ast.Unparen(c.partOf(inner))
	}
	note(e)
}
