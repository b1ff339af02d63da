// ATTEND by codes (section 13).
#ifndef NEARKV_MODEL_ATTEND_CODES_HPP_
#define NEARKV_MODEL_ATTEND_CODES_HPP_

#include "attend.hpp"
#include "coded_list.hpp"

namespace nearkv::model {

/// TAIL or BOUNDED, as the command says, of a list that has codes.
AttendAnswer attend_by_codes(const AttendTask& task, CodedList list);

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_ATTEND_CODES_HPP_
