package points

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

// carried finds variables whose addresses come to Register on a way: in slices, arrays, maps and structs that a loop ranges over, through other variables,
// and through parameters of functions of the package, also generic ones and those in variables.
type carried struct {
	*checker
	all      map[types.Object]bool         // variables, fields and parameters whose values come to Register
	parts    map[types.Object]bool         // those of which fields are registered
	literals map[types.Object]*ast.FuncLit // functions in variables
	changed  bool
}

func (c *checker) findCarried() {
	k := &carried{checker: c, all: map[types.Object]bool{}, parts: map[types.Object]bool{}, literals: map[types.Object]*ast.FuncLit{}}
	for k.changed = true; k.changed; {
		k.changed = false
		for _, file := range c.Files {
			ast.Inspect(file, k.step)
		}
	}
}

// step looks at one place where values go on.
func (k *carried) step(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		k.call(n)
	case *ast.RangeStmt:
		if k.holds(n.Value) || k.holds(n.Key) {
			k.carry(n.X)
		}
	case *ast.AssignStmt:
		for i, l := range n.Lhs {
			if len(n.Lhs) == len(n.Rhs) {
				k.assign(l, n.Rhs[i])
			} else if k.holds(l) { // of several results
				k.carry(n.Rhs[0])
			}
		}
	case *ast.ValueSpec:
		for i, name := range n.Names {
			if len(n.Values) == len(n.Names) {
				k.assign(name, n.Values[i])
			}
		}
	case *ast.KeyValueExpr:
		if id, ok := n.Key.(*ast.Ident); ok && k.all[k.TypesInfo.Uses[id]] { // a field
			k.carry(n.Value)
		}
	}
	return true
}

func (k *carried) assign(to, from ast.Expr) {
	if f, ok := ast.Unparen(from).(*ast.FuncLit); ok {
		if id, ok := to.(*ast.Ident); ok {
			k.literals[k.TypesInfo.ObjectOf(id)] = f
		}
	}
	if k.holds(to) {
		k.carry(from)
	}
	id, ok := to.(*ast.Ident)
	if u, is := ast.Unparen(from).(*ast.UnaryExpr); ok && is && u.Op == token.AND && k.parts[k.TypesInfo.ObjectOf(id)] {
		if element, is := ast.Unparen(u.X).(*ast.IndexExpr); is { // a pointer to it
			k.address(element)
		}
	}
}

// call follows arguments into a function.
func (k *carried) call(call *ast.CallExpr) {
	f := k.callee(call)
	if f != nil && strings.Contains(f.Name(), "Register") && len(call.Args) > 1 {
		k.carry(call.Args[1])
		return
	}
	var fields *ast.FieldList
	if d := k.bodies[f]; f != nil && d != nil {
		fields = d.Type.Params
	} else if id, ok := ast.Unparen(call.Fun).(*ast.Ident); ok && k.literals[k.TypesInfo.ObjectOf(id)] != nil {
		fields = k.literals[k.TypesInfo.ObjectOf(id)].Type.Params
	} else {
		return
	}
	var params []types.Object
	for _, field := range fields.List {
		for _, name := range field.Names {
			params = append(params, k.TypesInfo.Defs[name])
		}
	}
	for i, arg := range call.Args {
		if len(params) > 0 && k.all[params[min(i, len(params)-1)]] {
			k.carry(arg)
		}
	}
}

// holds reports whether what an expression names, or what that is part of, comes to Register.
func (k *carried) holds(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return k.all[k.TypesInfo.ObjectOf(e)]
	case *ast.SelectorExpr:
		return k.all[k.TypesInfo.ObjectOf(e.Sel)]
	case *ast.IndexExpr:
		return k.holds(e.X)
	case *ast.ParenExpr:
		return k.holds(e.X)
	case *ast.StarExpr:
		return k.holds(e.X)
	}
	return false
}

// carry notes that the values of an expression come to Register: those in it, and that of a variable.
func (k *carried) carry(e ast.Expr) {
	switch e := e.(type) {
	case *ast.Ident:
		k.value(e)
	case *ast.SelectorExpr:
		k.value(e.Sel)
		k.carry(e.X)
	case *ast.IndexExpr:
		k.carry(e.X)
	case *ast.SliceExpr:
		k.carry(e.X)
	case *ast.ParenExpr:
		k.carry(e.X)
	case *ast.StarExpr:
		k.carry(e.X)
	case *ast.TypeAssertExpr:
		k.carry(e.X)
	case *ast.KeyValueExpr:
		k.carry(e.Key)
		k.carry(e.Value)
	case *ast.CompositeLit:
		for _, v := range e.Elts {
			k.carry(v)
		}
	case *ast.CallExpr:
		k.result(e)
	case *ast.UnaryExpr:
		if e.Op == token.AND {
			k.address(e.X)
		}
	}
}

// address notes that a variable is registered whose address comes to Register.
func (k *carried) address(e ast.Expr) {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		k.add(k.registered, e)
	case *ast.SelectorExpr:
		k.add(k.registered, e.Sel)
		switch x := ast.Unparen(e.X).(type) {
		case *ast.IndexExpr: // fields of elements: the elements count as a whole
			k.address(x)
		case *ast.Ident:
			k.add(k.parts, x)
		}
	case *ast.IndexExpr: // its elements, one after the other
		k.address(e.X)
	case *ast.CompositeLit:
		k.carry(e)
	}
}

// result follows what a call returns: of append, of a conversion, of a wrapper, of a function of the package.
func (k *carried) result(call *ast.CallExpr) {
	d := k.bodies[k.callee(call)]
	if d == nil {
		for _, arg := range call.Args {
			k.carry(arg)
		}
		return
	}
	ast.Inspect(d.Body, func(n ast.Node) bool {
		if r, ok := n.(*ast.ReturnStmt); ok {
			for _, v := range r.Results {
				k.carry(v)
			}
		}
		_, inner := n.(*ast.FuncLit)
		return !inner
	})
}

// value notes a variable whose value comes to Register. What is a pointer already, or an array of dist or device, is registered by that.
func (k *carried) value(id *ast.Ident) {
	k.add(k.all, id)
	t := k.TypesInfo.TypeOf(id)
	if _, ok := t.(*types.Pointer); ok || t != nil && isArray(t) {
		k.add(k.registered, id)
	}
}

func (k *carried) add(to map[types.Object]bool, id *ast.Ident) {
	if v, ok := k.TypesInfo.ObjectOf(id).(*types.Var); ok && !to[v] {
		to[v], k.changed = true, true
	}
}
