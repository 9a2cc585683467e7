package rpi

// Parameter describes one entry of Env.Params that a module understands.
type Parameter struct {
	Name    string // e.g. "tcp.eager"
	Default string
	Doc     string // one line, with the unit
}
