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

// Memory returns the most memory that docket takes now: with the configuration in force, and
// for removed sinks that still get records.
func (e *Exporter) Memory() []MemoryPart {
	now := e.parts()
	list := now.cfg.Memory()
	for _, d := range now.deliveries {
		if d.through.Load() > 0 {
			list = append(list, MemoryPart{"sink " + d.cfg.Name, d.cfg.memoryBytes(int64(now.cfg.Limits.MaxRecordBytes))})
		}
	}
	return list
}

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
