package config

import (
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Differences lists the keys in which two values of one type differ, as they would be written:
// "http.url". A list counts as one value. It fails as a MarshalText does.
func Differences(a, b any) (paths []string, err error) {
	before, err := encode(reflect.ValueOf(a))
	if err != nil {
		return nil, err
	}
	after, err := encode(reflect.ValueOf(b))
	if err != nil {
		return nil, err
	}
	Node{yaml: before}.differences(Node{yaml: after}, func(path string) { paths = append(paths, path) })
	return paths, nil
}

// differences calls found with the paths at which n and o differ.
func (n Node) differences(o Node, found func(path string)) {
	if !n.is(yaml.MappingNode) || !o.is(yaml.MappingNode) {
		if !equal(n.yaml, o.yaml) {
			found(n.path)
		}
		return
	}
	for key, member := range n.members() {
		if other, ok := o.Get(key); ok {
			member.differences(other, found)
		} else {
			found(member.path)
		}
	}
	for key, member := range o.members() {
		if _, ok := n.Get(key); !ok {
			found(member.path)
		}
	}
}

func equal(a, b *yaml.Node) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Kind == b.Kind && a.Tag == b.Tag && a.Value == b.Value && slices.EqualFunc(a.Content, b.Content, equal)
}
