#include "xrt/xclbin/metadata.hpp"

#include <ios>
#include <sstream>

namespace nearkv::hw_emu {

namespace {

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char letter : text) {
    switch (letter) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += letter;
    }
  }
  return result + '"';
}

void write_port(std::ostream& xml, const std::string& name, const char* mode, const char* range) {
  xml << "     <port name=" << quoted(name) << " mode=\"" << mode << "\" range=\"" << range
      << "\" dataWidth=\"32\" portType=\"addressable\" base=\"0x0\"/>\n";
}

void write_argument(std::ostream& xml, const Kernel& kernel, const Argument& argument,
                    std::size_t id) {
  const std::string& port = argument.is_buffer() ? argument.port : kernel.control;
  xml << "     <arg name=" << quoted(argument.name) << " addressQualifier=\""
      << (argument.is_buffer() ? 1 : 0) << "\" id=\"" << std::dec << id << std::hex
      << "\" port=" << quoted(port) << " size=\"0x" << argument.bytes << "\" offset=\"0x"
      << argument.offset << "\" hostOffset=\"0x0\" hostSize=\"0x" << argument.bytes
      << "\" type=" << quoted(argument.type) << "/>\n";
}

void write_kernel(std::ostream& xml, const Kernel& kernel) {
  xml << "    <kernel name=" << quoted(kernel.name)
      << " language=\"ip_c\" vlnv=" << quoted("nearkv:emulation:" + kernel.name + ":1.0")
      << " preferredWorkGroupSizeMultiple=\"0\" workGroupSize=\"1\" debug=\"false\" interrupt="
      << quoted(kernel.interrupt.empty() ? "false" : "true")
      << " hwControlProtocol=" << quoted(kernel.protocol) << ">\n";
  for (const std::string& master : kernel.masters) {
    write_port(xml, master, "master", "0xFFFFFFFFFFFFFFFF");
  }
  std::ostringstream range;
  range << "0x" << std::hex << kernel.register_bytes;
  write_port(xml, kernel.control, "slave", range.str().c_str());
  for (std::size_t i = 0; i < kernel.arguments.size(); ++i) {
    write_argument(xml, kernel, kernel.arguments[i], i);
  }
  for (const ComputeUnit& unit : kernel.compute_units) {
    xml << "     <instance name=" << quoted(unit.name) << ">\n      <addrRemap base=\"0x"
        << unit.base << "\" range=\"0x" << kernel.register_bytes
        << "\" port=" << quoted(kernel.control) << "/>\n     </instance>\n";
  }
  xml << "    </kernel>\n";
}

}  // namespace

std::string make_metadata(const Description& description) {
  std::ostringstream xml;
  xml << std::hex;
  xml << "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
         "<project name="
      << quoted(description.kernels.front().name)
      << ">\n"
         " <platform vendor=\"nearkv\" boardid=\"emulation\" name="
      << quoted(description.platform)
      << " featureRomTime=\"0\">\n"
         "  <version major=\"1\" minor=\"0\"/>\n"
         "  <description/>\n"
         "  <board name=\"emulation\" vendor=\"nearkv\" fpga=\"none\"/>\n"
         "  <build_flow/><host architecture=\"x86_64\"/>\n"
         "  <device name=\"fpga0\" fpgaDevice=\"virtexuplus:none:none:-2:e\" addrWidth=\"0\">\n"
         "   <core name=\"OCL_REGION_0\" target=\"hw_em\" type=\"clc_region\" clockFreq=\"0MHz\" "
         "numComputeUnits=\"60\">\n"
         "    <kernelClocks><clock port=\"DATA_CLK\" frequency=\"300MHz\"/>"
         "<clock port=\"KERNEL_CLK\" frequency=\"300MHz\"/></kernelClocks>\n";
  for (const Kernel& kernel : description.kernels) write_kernel(xml, kernel);
  xml << "   </core>\n  </device>\n </platform>\n</project>\n";
  return xml.str();
}

}  // namespace nearkv::hw_emu
