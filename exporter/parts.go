package exporter

import "slices"

// parts are what serves the configuration in force. A reload replaces them and changes
// none: one parts() is a view that is consistent in itself.
type parts struct {
	cfg        *Config
	sources    []*sourceRunner
	deliveries []*delivery
}

// parts returns those of now.
func (e *Exporter) parts() *parts { return e.now.Load() }

// config is the configuration in force.
func (e *Exporter) config() *Config { return e.parts().cfg }

// Config is the configuration in force, which must not be changed.
func (e *Exporter) Config() *Config { return e.config() }

// delivery returns that of the sink called name, nil when there is none.
func (p *parts) delivery(name string) *delivery {
	i := slices.IndexFunc(p.deliveries, func(d *delivery) bool { return d.cfg.Name == name })
	if i < 0 {
		return nil
	}
	return p.deliveries[i]
}

// source returns the runner of the source called name, nil when there is none.
func (p *parts) source(name string) *sourceRunner {
	if i := slices.IndexFunc(p.sources, func(r *sourceRunner) bool { return r.cfg.Name == name }); i >= 0 {
		return p.sources[i]
	}
	return nil
}
