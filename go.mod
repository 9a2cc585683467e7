module github.com/gorun-mpi/gorun

go 1.25.0

require (
	github.com/BurntSushi/toml v1.6.0
	github.com/golang/snappy v1.0.0
	github.com/google/uuid v1.6.0
	github.com/klauspost/compress v1.19.0
	github.com/klauspost/reedsolomon v1.14.2
	github.com/schollz/progressbar/v3 v3.18.0
	golang.org/x/sys v0.44.0
	golang.org/x/term v0.42.0
	pgregory.net/rapid v1.3.0
)

require (
	github.com/klauspost/cpuid/v2 v2.3.0 // indirect
	github.com/mitchellh/colorstring v0.0.0-20190213212951-d06e56a500db // indirect
	github.com/rivo/uniseg v0.4.7 // indirect
)
