package points

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/token"
	"go/types"
	"strconv"

	"golang.org/x/tools/go/analysis"
)

// fix registers variables before a loop and, if wanted, puts a Point at the beginning of its body. It reports false
// where the function cannot return the error as it is, the loop is a range or has a label, or a name would mean something else.
func (c *checker) fix(l *loop, vars []path, point bool) (f analysis.SuggestedFix, ok bool) {
	fun := l.fun
	if fun == nil {
		fun = l.decl.Type
	}
	if _, isRange := l.stmt.(*ast.RangeStmt); isRange || c.labeled[l.stmt] || !returnsError(c, fun) {
		return f, false
	}
	if cr, found := c.meaning(l, "cr").(*types.PkgName); !found && c.meaning(l, "cr") != nil || found && cr.Imported().Path() != crPath {
		return f, false
	}
	file, edits := c.imported(l)
	if file == nil {
		return f, false
	}
	var b bytes.Buffer
	at, end := l.stmt.Pos(), l.stmt.Pos()
	if init, moved := l.init(), false; init != nil {
		for _, p := range vars {
			moved = moved || init.Pos() <= p.root.Pos() && p.root.Pos() < init.End()
		}
		if moved && c.hides(l, init) {
			return f, false
		}
		if moved { // a variable of the loop comes before it
			if err := format.Node(&b, c.Fset, init); err != nil {
				return f, false
			}
			b.WriteString("\n")
			end = init.End()
		}
	}
	of := c.registry(fun, l)
	for _, p := range vars {
		address := "&"
		if isArray(p.typ()) {
			address = ""
		}
		fmt.Fprintf(&b, "if err := %s.Register(%q, %s%s); err != nil {\nreturn err\n}\n", of, p.name(), address, p.name())
	}
	if end > at {
		b.WriteString("for ")
	}
	if b.Len() > 0 {
		edits = append(edits, analysis.TextEdit{Pos: at, End: end, NewText: b.Bytes()})
	}
	f.Message = "register what is live"
	if point {
		f.Message += ", and insert a Point"
		edits = append(edits, analysis.TextEdit{Pos: l.body.Lbrace + 1, End: l.body.Lbrace + 1, NewText: []byte("\nif err := " + of + ".Point(); err != nil {\nreturn err\n}")})
	}
	f.TextEdits = edits
	return f, true
}

// meaning is what a name means where the body of a loop begins, nil: nothing.
func (c *checker) meaning(l *loop, name string) types.Object {
	_, obj := c.TypesInfo.Scopes[l.stmt].LookupParent(name, l.body.Lbrace)
	return obj
}

// hides reports whether a variable of the beginning of a loop has the name of another one around it.
func (c *checker) hides(l *loop, init ast.Stmt) (yes bool) {
	ast.Inspect(init, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && c.TypesInfo.Defs[id] != nil {
			_, other := c.TypesInfo.Scopes[l.stmt].Parent().LookupParent(id.Name, token.NoPos)
			yes = yes || other != nil
		}
		return !yes
	})
	return yes
}

// returnsError reports whether a function returns an error and nothing else.
func returnsError(c *checker, fun *ast.FuncType) bool {
	if fun.Results == nil || fun.Results.NumFields() != 1 {
		return false
	}
	return types.Identical(c.TypesInfo.TypeOf(fun.Results.List[0].Type), types.Universe.Lookup("error").Type())
}

// imported finds the file of a loop, with the edit by which it imports cr.
func (c *checker) imported(l *loop) (*ast.File, []analysis.TextEdit) {
	for _, file := range c.Files {
		if l.stmt.Pos() < file.FileStart || l.stmt.Pos() >= file.FileEnd {
			continue
		}
		var last *ast.ImportSpec
		for _, i := range file.Imports {
			switch p, _ := strconv.Unquote(i.Path.Value); {
			case p == crPath && i.Name == nil:
				return file, nil
			case p == crPath: // under another name, or none
				return nil, nil
			case p == mpiPath:
				last = i
			}
		}
		if last == nil {
			return nil, nil
		}
		for _, d := range file.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.IMPORT && g.Pos() <= last.Pos() && last.End() <= g.End() && !g.Lparen.IsValid() {
				return file, []analysis.TextEdit{{Pos: g.End(), End: g.End(), NewText: []byte("\nimport " + strconv.Quote(crPath))}}
			}
		}
		return file, []analysis.TextEdit{{Pos: last.Pos(), End: last.Pos(), NewText: []byte(strconv.Quote(crPath) + "\n")}}
	}
	return nil, nil
}

// registry is the rank's registry: that of a communicator that the function has, which also serves in tests where
// ranks are goroutines, else that of the process.
func (c *checker) registry(fun *ast.FuncType, l *loop) string {
	for _, f := range []*ast.FuncType{fun, l.decl.Type} {
		for _, field := range f.Params.List {
			p, ok := c.TypesInfo.TypeOf(field.Type).(*types.Pointer)
			if !ok || len(field.Names) == 0 || field.Names[0].Name == "_" {
				continue
			}
			n, ok := p.Elem().(*types.Named)
			if ok && n.Obj().Name() == "Comm" && n.Obj().Pkg() != nil && n.Obj().Pkg().Path() == mpiPath && c.meaning(l, field.Names[0].Name) == c.TypesInfo.Defs[field.Names[0]] {
				return "cr.On(" + field.Names[0].Name + ")"
			}
		}
	}
	return "cr"
}
