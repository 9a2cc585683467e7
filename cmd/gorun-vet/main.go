// Gorun-vet looks at programs that register their state with package cr: at loops with messages and no Point, and at
// variables that a Point needs or does not need. gorun vet runs it.
//
//	gorun vet ./...          report
//	gorun vet -fix ./...     insert the calls
//
// Package points says what is reported.
package main

import (
	"golang.org/x/tools/go/analysis/singlechecker"

	"github.com/gorun-mpi/gorun/cmd/gorun-vet/points"
)

func main() { singlechecker.Main(points.Analyzer) }
