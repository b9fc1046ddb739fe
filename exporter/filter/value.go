package filter

import (
	"reflect"
	"strconv"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"github.com/docket-export/docket/decision/rawjson"
)

// object is a JSON object as a CEL map that reads its members when they are asked
// for: most expressions look at two fields of a record that has forty. It belongs to
// one evaluation.
type object struct {
	text  []byte
	finds int
	whole traits.Mapper // nil until more than a few members were asked for
}

var _ traits.Mapper = (*object)(nil)

// maxFinds is how often the text is searched before all of it is read into a map, so
// that what an expression asks for in a loop costs it no more than its cost says.
const maxFinds = 8

// Find implements traits.Mapper.
func (o *object) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok || o.whole != nil || o.finds == maxFinds {
		return o.all().Find(key)
	}
	o.finds++
	var found rawjson.Value
	for member, value := range rawjson.Members(o.text) {
		if string(member) == string(name) {
			found = value // the last one counts
		}
	}
	if found == nil {
		return nil, false
	}
	return valueOf(found), true
}

// all returns every member, the values that are objects again as object.
func (o *object) all() traits.Mapper {
	if o.whole == nil {
		members := make(map[ref.Val]ref.Val)
		for name, value := range rawjson.Members(o.text) {
			members[types.String(name)] = valueOf(value)
		}
		o.whole = types.NewRefValMap(types.DefaultTypeAdapter, members)
	}
	return o.whole
}

// valueOf returns the CEL value of JSON text, which objects and lists keep.
func valueOf(text rawjson.Value) ref.Val {
	switch text.Kind() {
	case rawjson.Object:
		return &object{text: text}
	case rawjson.Array:
		var items []ref.Val
		for item := range rawjson.Items(text) {
			items = append(items, valueOf(item))
		}
		return list{types.NewRefValList(types.DefaultTypeAdapter, items), text}
	case rawjson.String:
		return types.String(text.Text())
	case rawjson.Boolean:
		return types.Bool(text[0] == 't')
	case rawjson.Null:
		return types.NullValue
	}
	return numberOf(string(text))
}

// numberOf keeps whole numbers as such: a double has room for 53 bits. What is
// larger than any double is infinite.
func numberOf(text string) ref.Val {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return types.Int(n)
	}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return types.Uint(n)
	}
	n, _ := strconv.ParseFloat(text, 64) // valid JSON, so the error can only be the range
	return types.Double(n)
}

// list is a JSON array as a CEL list.
type list struct {
	traits.Lister
	text []byte
}

// AggregateSize implements types.AggregateSizeVisitor, by which comparisons have their
// price: it is in proportion to the text, and costs nothing to find.
func (l list) AggregateSize(types.AggregateSizer) uint32 { return uint32(len(l.text)) }

// AggregateSize implements types.AggregateSizeVisitor.
func (o *object) AggregateSize(types.AggregateSizer) uint32 { return uint32(len(o.text)) }

// Contains implements traits.Container: whether there is a member called key.
func (o *object) Contains(key ref.Val) ref.Val {
	value, found := o.Find(key)
	if value != nil && types.IsUnknownOrError(value) {
		return value
	}
	return types.Bool(found)
}

// Get implements traits.Indexer.
func (o *object) Get(key ref.Val) ref.Val {
	if value, found := o.Find(key); found {
		return value
	}
	return o.all().Get(key)
}

// The rest is that of a map which holds every member.

// Iterator implements traits.Iterable.
func (o *object) Iterator() traits.Iterator { return o.all().Iterator() }

// Size implements traits.Sizer.
func (o *object) Size() ref.Val { return o.all().Size() }

// Equal implements ref.Val.
func (o *object) Equal(other ref.Val) ref.Val { return o.all().Equal(other) }

// ConvertToNative implements ref.Val.
func (o *object) ConvertToNative(t reflect.Type) (any, error) { return o.all().ConvertToNative(t) }

// ConvertToType implements ref.Val.
func (o *object) ConvertToType(t ref.Type) ref.Val { return o.all().ConvertToType(t) }

// Type implements ref.Val.
func (o *object) Type() ref.Type { return types.MapType }

// Value implements ref.Val.
func (o *object) Value() any { return o.all().Value() }
