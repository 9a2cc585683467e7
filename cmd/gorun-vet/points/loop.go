package points

import (
	"go/ast"
	"go/token"
	"go/types"
)

// loop is an outermost loop with messages, or the innermost one around a Point.
type loop struct {
	stmt     ast.Stmt // *ast.ForStmt or *ast.RangeStmt
	body     *ast.BlockStmt
	messages bool
	point    *ast.CallExpr // in its body; nil: there is none
	decl     *ast.FuncDecl
	fun      *ast.FuncType // of the innermost function around it
}

func (l *loop) init() ast.Stmt {
	if f, ok := l.stmt.(*ast.ForStmt); ok {
		return f.Init
	}
	return nil
}

// loops calls f for the loops of a function that matter: those around a Point, and outermost ones with messages.
func (c *checker) loops(body *ast.BlockStmt, f func(*loop)) {
	c.within(body, nil, f)
}

func (c *checker) within(n ast.Node, fun *ast.FuncType, f func(*loop)) {
	ast.Inspect(n, func(n ast.Node) bool {
		l := &loop{fun: fun}
		switch n := n.(type) {
		case *ast.FuncLit:
			c.within(n.Body, n.Type, f)
			return false
		case *ast.CallExpr:
			return !c.ofCall(c.callee(n)).Point || isPoint(c.callee(n)) // what it is given it may call at its Points
		case *ast.LabeledStmt:
			c.labeled[n.Stmt] = true
			return true
		case *ast.ForStmt:
			l.stmt, l.body = n, n.Body
		case *ast.RangeStmt:
			l.stmt, l.body = n, n.Body
		default:
			return true
		}
		s := c.effect(l.body)
		l.messages = s.Messages
		if l.point = c.pointIn(l.body); l.point != nil {
			f(l)
			return false
		}
		if s.Point {
			return true // a loop within, or a call, has it
		}
		if l.messages {
			f(l)
			return false
		}
		return true
	})
}

// pointIn finds a Point in a body, outside of loops and functions within it.
func (c *checker) pointIn(body *ast.BlockStmt) (found *ast.CallExpr) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ForStmt, *ast.RangeStmt, *ast.FuncLit:
			return false
		case *ast.CallExpr:
			if isPoint(c.callee(n)) {
				found = n
			}
		}
		return found == nil
	})
	return found
}

// underLoop notes what is called from within a loop.
func (c *checker) underLoop(n ast.Node) {
	ast.Inspect(n, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if f := c.callee(call); f != nil && c.bodies[f] != nil && !c.under[f] {
				c.under[f] = true
				c.underLoop(c.bodies[f].Body)
			}
		}
		return true
	})
}

// overRanks reports whether a loop goes over ranks, requests or something else that is not the program's time.
func (c *checker) overRanks(l *loop) bool {
	switch s := l.stmt.(type) {
	case *ast.RangeStmt:
		t, ok := c.TypesInfo.TypeOf(s.X).Underlying().(*types.Basic)
		return !ok || t.Info()&types.IsInteger == 0 || c.countsRanks(s.X)
	case *ast.ForStmt:
		return s.Cond != nil && c.countsRanks(s.Cond)
	}
	return false
}

// countsRanks reports whether an expression has the number of ranks or a length in it, or a variable made of them.
func (c *checker) countsRanks(e ast.Expr) (yes bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if f := c.callee(n); f != nil && (f.Name() == "Size" || f.Name() == "Rank") {
				yes = true
			}
			if id, ok := n.Fun.(*ast.Ident); ok && id.Name == "len" {
				yes = true
			}
		case *ast.Ident:
			if v, ok := c.TypesInfo.Uses[n].(*types.Var); ok && c.madeOfRanks(v) {
				yes = true
			}
		}
		return !yes
	})
	return yes
}

// madeOfRanks reports whether a variable is set to c.Size() or the like where it is declared.
func (c *checker) madeOfRanks(v *types.Var) (yes bool) {
	for _, file := range c.Files {
		if v.Pos() < file.FileStart || v.Pos() >= file.FileEnd {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			a, ok := n.(*ast.AssignStmt)
			if !ok || a.Tok != token.DEFINE || len(a.Lhs) != len(a.Rhs) {
				return true
			}
			for i, l := range a.Lhs {
				id, ok := l.(*ast.Ident)
				if !ok || c.TypesInfo.Defs[id] != v {
					continue
				}
				if call, ok := a.Rhs[i].(*ast.CallExpr); ok {
					if f := c.callee(call); f != nil && (f.Name() == "Size" || f.Name() == "Rank") {
						yes = true
					}
				}
			}
			return !yes
		})
	}
	return yes
}
