# The module subquad._subquad. It links the files that the program is made of, so
# that a tree that is built has only this folder to compile. In a wheel the
# libraries of the system that it needs lie beside it.
find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module)
if(NOT nanobind_DIR)
  execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir
    OUTPUT_VARIABLE nanobind_DIR OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
find_package(nanobind CONFIG REQUIRED)
if(nanobind_VERSION VERSION_LESS 2.2)
  message(FATAL_ERROR "nanobind: expected 2.2 or later, found ${nanobind_VERSION}")
endif()

if(NOT TARGET subquad_no_device)
  # Tensors of a GPU are judged on the host.
  add_library(subquad_no_device STATIC cuda/no_device.cc)
  target_link_libraries(subquad_no_device PUBLIC subquad_reference)
endif()

file(GLOB module_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cc)
nanobind_add_module(subquad_module NB_STATIC NOMINSIZE ${module_sources})
target_compile_options(subquad_module PRIVATE -O1)
# Its headers shadow names, which is no concern of ours.
target_include_directories(subquad_module SYSTEM PRIVATE ${NB_DIR}/include)
target_link_libraries(subquad_module PRIVATE subquad_judging_archive subquad_no_device)
set_target_properties(subquad_module PROPERTIES OUTPUT_NAME _subquad
  INSTALL_RPATH "$ORIGIN/lib")
# Nobody is to find another library's symbols here.
target_link_options(subquad_module PRIVATE -Wl,--exclude-libs,ALL)

# The package in the build folder: its Python files, and the module among them.
set(package ${PROJECT_BINARY_DIR}/python/subquad)
set_target_properties(subquad_module PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${package})
file(GLOB_RECURSE package_sources RELATIVE ${CMAKE_CURRENT_LIST_DIR}/subquad
  CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/subquad/*.py ${CMAKE_CURRENT_LIST_DIR}/subquad/*.pyi
  ${CMAKE_CURRENT_LIST_DIR}/subquad/py.typed)
foreach(source ${package_sources})
  get_filename_component(folder ${package}/${source} DIRECTORY)
  file(MAKE_DIRECTORY ${folder})
  file(CREATE_LINK ${CMAKE_CURRENT_LIST_DIR}/subquad/${source} ${package}/${source} SYMBOLIC)
endforeach()

if(SKBUILD)
  # Not the C and C++ libraries of the system, nor the C library's.
  install(TARGETS subquad_module RUNTIME_DEPENDENCY_SET subquad_module_needs
    LIBRARY DESTINATION subquad)
  install(RUNTIME_DEPENDENCY_SET subquad_module_needs
    PRE_INCLUDE_REGEXES "libfftw3" "libfmt" "libbenchmark"
    PRE_EXCLUDE_REGEXES ".*"
    LIBRARY DESTINATION subquad/lib)
endif()
