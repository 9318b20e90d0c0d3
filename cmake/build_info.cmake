# ropeline_build_info: version, git hash, compiler and flags as a library that is rebuilt when the hash changes.
add_custom_target(ropeline_git_hash
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DOUTPUT=${PROJECT_BINARY_DIR}/git_hash.inc
          -P ${PROJECT_SOURCE_DIR}/cmake/git_hash.cmake
  BYPRODUCTS ${PROJECT_BINARY_DIR}/git_hash.inc
  COMMENT "git hash")
string(TOUPPER "${CMAKE_BUILD_TYPE}" ROPELINE_BUILD_TYPE)
string(STRIP "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${ROPELINE_BUILD_TYPE}}" ROPELINE_FLAGS)
configure_file(${PROJECT_SOURCE_DIR}/cmake/build_info.cc.in ${PROJECT_BINARY_DIR}/build_info.cc @ONLY)
add_library(ropeline_build_info STATIC ${PROJECT_BINARY_DIR}/build_info.cc)
target_include_directories(ropeline_build_info PRIVATE ${PROJECT_BINARY_DIR})
target_link_libraries(ropeline_build_info PUBLIC ropeline_options)
add_dependencies(ropeline_build_info ropeline_git_hash)
