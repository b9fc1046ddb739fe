package config

// Keyed is a definition of one kind of thing, selected by a configuration key.
type Keyed interface {
	ConfigKey() string
}

// Registry lists the kinds that a section can have, in the order in which
// messages name them. It is a plain list: nothing registers itself by being
// imported.
type Registry[D Keyed] []D

// Lookup returns the definition that key selects.
func (r Registry[D]) Lookup(key string) (D, bool) {
	for _, d := range r {
		if d.ConfigKey() == key {
			return d, true
		}
	}
	var none D
	return none, false
}

// Keys returns the known keys in their order.
func (r Registry[D]) Keys() []string {
	keys := make([]string, len(r))
	for i, d := range r {
		keys[i] = d.ConfigKey()
	}
	return keys
}
