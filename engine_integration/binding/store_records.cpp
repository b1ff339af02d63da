// What object stores tell about themselves.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "module.hpp"
#include "nearkv/object_store.hpp"

namespace nb = nanobind;

namespace nearkv::python {
namespace {

template <typename Record>
nb::bytes key_of(const Record& record) {
  return nb::bytes(record.key.data(), record.key.size());
}

}  // namespace

void bind_store_records(nb::module_& module) {
  using Stats = ObjectStoreStats;
  nb::class_<Stats>(module, "ObjectStoreStats", "What a store holds and has done since it opened.")
      .def_ro("total_bytes", &Stats::total_bytes, "That objects and pages can use.")
      .def_ro("slab_bytes", &Stats::slab_bytes, "Begun by objects: what pages cannot use.")
      .def_ro("used_bytes", &Stats::used_bytes, "Held by objects, rounding included.")
      .def_ro("object_bytes", &Stats::object_bytes)
      .def_ro("objects", &Stats::objects)
      .def_ro("namespaces", &Stats::namespaces)
      .def_ro("leases", &Stats::leases)
      .def_ro("sets", &Stats::sets, "Objects stored.")
      .def_ro("set_bytes", &Stats::set_bytes)
      .def_ro("hits", &Stats::hits, "Objects given out.")
      .def_ro("get_bytes", &Stats::get_bytes)
      .def_ro("misses", &Stats::misses)
      .def_ro("evictions", &Stats::evictions)
      .def_ro("expirations", &Stats::expirations)
      .def_ro("corruptions", &Stats::corruptions, "Checksums that failed, each once.")
      .def_ro("recovered", &Stats::recovered, "Objects found when the store was opened.")
      .def_ro("torn", &Stats::torn, "Records dropped then, never finished or damaged.")
      .def_ro("moved", &Stats::moved, "Objects that compaction moved.")
      .def_ro("promotions", &Stats::promotions, "Objects copied to the first of several tiers.")
      .def_ro("demotions", &Stats::demotions, "Objects handed down to the next one.")
      .def_ro("quarantined", &Stats::quarantined, "Objects whose memory reported poison.")
      .def_ro("max_objects", &Stats::max_objects, "That the pool has records for.")
      .def_ro("max_namespaces", &Stats::max_namespaces);
  nb::class_<NamespaceInfo>(module, "NamespaceInfo", "What a namespace's record says.")
      .def_ro("number", &NamespaceInfo::number)
      .def_ro("tenant", &NamespaceInfo::tenant)
      .def_ro("users", &NamespaceInfo::users, "How often it is open now.")
      .def_ro("objects", &NamespaceInfo::objects)
      .def_ro("text", &NamespaceInfo::text, "Model, dtype, layout, rank and group; not the salt.");
  nb::class_<ObjectInfo>(module, "ObjectInfo", "What an object's record says.")
      .def_ro("number", &ObjectInfo::number, "Of the record; orders lists.")
      .def_ro("namespace_number", &ObjectInfo::namespace_number)
      .def_ro("tenant", &ObjectInfo::tenant)
      .def_prop_ro("key", &key_of<ObjectInfo>, "The key, or the SHA-256 of a longer one.")
      .def_ro("key_is_digest", &ObjectInfo::key_is_digest)
      .def_ro("leased", &ObjectInfo::leased)
      .def_ro("bytes", &ObjectInfo::bytes)
      .def_ro("parts", &ObjectInfo::parts)
      .def_ro("extents", &ObjectInfo::extents)
      .def_ro("generation", &ObjectInfo::generation)
      .def_ro("created_s", &ObjectInfo::created_s, "Since 1970.")
      .def_ro("expires_s", &ObjectInfo::expires_s, "0: never by age.");
  nb::enum_<StoreEvent::Kind>(module, "StoreEventKind", "What happened to an object.")
      .value("STORED", StoreEvent::Kind::kStored)
      .value("EVICTED", StoreEvent::Kind::kEvicted)
      .value("ERASED", StoreEvent::Kind::kErased)
      .value("DAMAGED", StoreEvent::Kind::kDamaged);
  nb::class_<StoreEvent>(module, "StoreEvent", "A change of what is there.")
      .def_ro("kind", &StoreEvent::kind)
      .def_ro("tier", &StoreEvent::tier, "In a stack: 0 is the fastest.")
      .def_ro("namespace_number", &StoreEvent::namespace_number)
      .def_ro("bytes", &StoreEvent::bytes)
      .def_prop_ro("key", &key_of<StoreEvent>, "The key, or the SHA-256 of a longer one.")
      .def_ro("key_is_digest", &StoreEvent::key_is_digest);
  nb::class_<VerifyProgress>(module, "VerifyProgress", "What one step of verifying found.")
      .def_ro("next", &VerifyProgress::next, "Where the next step goes on; 0: all has been seen.")
      .def_ro("objects", &VerifyProgress::objects)
      .def_ro("bytes", &VerifyProgress::bytes)
      .def_ro("damaged", &VerifyProgress::damaged, "Objects that are gone since.");
}

}  // namespace nearkv::python
