package flow

// viscosity returns how the momentum along a is conducted along d, and what of that is not in the energy.
func viscosity(a, d int) (momentum, energy float64) {
	k := C34
	if a == d {
		k *= 4. / 3
	}
	return k, k - C15*C34
}

// Convect returns F x, F being the Jacobian of the flux along d at a point.
func (w *Primitive) Convect(d int, x *Vec) Vec {
	n, xn := w.V[d], x[1+d]
	dot := w.V[0]*x[1] + w.V[1]*x[2] + w.V[2]*x[3]
	var y Vec
	y[0] = xn
	for a, v := range w.V {
		y[1+a] = v*(xn-n*x[0]) + n*x[1+a]
	}
	y[1+d] += C2 * (w.Q*x[0] - dot + x[4])
	y[4] = (2*C2*w.Q-C1*w.E)*n*x[0] + (C1*w.E-C2*w.Q)*xn - C2*n*dot + C1*n*x[4]
	return y
}

// Conduct returns N x, N being the Jacobian of what is conducted along d.
func (w *Primitive) Conduct(d int, x *Vec) Vec {
	var y Vec
	y[4] = C15 * C34 * (x[4] - w.E*x[0])
	for a, v := range w.V {
		k, energy := viscosity(a, d)
		difference := x[1+a] - v*x[0]
		y[1+a] = k * w.R * difference
		y[4] += energy * v * difference
	}
	y[4] *= w.R
	return y
}

// Flows sets f to the Jacobian of the flux along d. Convect multiplies with it.
func (w *Primitive) Flows(d int, f *[5]Vec) {
	n := w.V[d]
	*f = [5]Vec{}
	f[0][1+d] = 1
	for a, v := range w.V {
		f[1+a][0] = -v * n
		f[1+a][1+a] = n
	}
	for a, v := range w.V {
		f[1+a][1+d] += v
		f[1+d][1+a] -= C2 * v
		f[4][1+a] = -C2 * v * n
	}
	f[1+d][0] += C2 * w.Q
	f[1+d][4] = C2
	f[4][0] = (2*C2*w.Q - C1*w.E) * n
	f[4][1+d] += C1*w.E - C2*w.Q
	f[4][4] = C1 * n
}

// Conducts sets c to the Jacobian of what is conducted along d. Conduct multiplies with it.
func (w *Primitive) Conducts(d int, c *[5]Vec) {
	*c = [5]Vec{}
	const k5 = C15 * C34
	sum := k5 * w.E
	for a, v := range w.V {
		k, energy := viscosity(a, d)
		c[1+a][0] = -k * w.R * v
		c[1+a][1+a] = k * w.R
		c[4][1+a] = energy * w.R * v
		sum += energy * v * v
	}
	c[4][0] = -w.R * sum
	c[4][4] = k5 * w.R
}
