module github.com/gorun-mpi/gorun/cmd/gorun-device

go 1.25.0

replace github.com/gorun-mpi/gorun => ../..

require (
	github.com/ebitengine/purego v0.11.3
	github.com/gorun-mpi/gorun v0.0.0-00010101000000-000000000000
	golang.org/x/sys v0.47.0
)

require (
	github.com/golang/snappy v1.0.0 // indirect
	github.com/klauspost/compress v1.19.2 // indirect
)
