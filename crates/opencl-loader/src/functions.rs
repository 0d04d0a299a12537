//! Every function that cl-sys 0.4.3 declares, except the two of src/start_up.rs.
//!
//! All versions and OpenGL sharing are included, whatever features cl-sys is built with: the linker drops functions
//! that are not called. src/signatures.rs checks the types, tests/complete.rs the list.

#![expect(unsafe_code, reason = "defines and calls C functions")]
#![allow(non_snake_case, reason = "the names are OpenCL's")]
#![allow(clippy::too_many_arguments, reason = "the arguments are OpenCL's")]

use std::ffi::{c_char, c_void};

use crate::forward::CL_INVALID_PLATFORM;

// The types distinguish arguments that a calling convention passes differently, and make the list readable. All objects
// of OpenCL are opaque pointers.
type Handle = *mut c_void;
type Handles = *const Handle;
type In = *const c_void;
type Out = *mut c_void;
type Sizes = *const usize;
type Text = *const c_char;
/// Any function pointer, or null. It is passed on and never called here.
type Callback = Option<unsafe extern "C" fn()>;

/// Passes the declarations to another macro, so that the tests can use them as well. `forward` explains the words
/// before the names.
macro_rules! for_each_function {
    ($macro:ident) => {
        $macro! {
            // Platforms and devices.
            query clGetPlatformInfo(platform: Handle);
            query clGetDeviceInfo(device: Handle);
            status clCreateSubDevices(
                device: Handle, properties: *const isize, num_devices: u32, sub_devices: *mut Handle,
                num_devices_ret: *mut u32
            );
            retain clRetainDevice(device: Handle);
            release clReleaseDevice(device: Handle);
            status clSetDefaultDeviceCommandQueue(context: Handle, device: Handle, queue: Handle);
            status clGetDeviceAndHostTimer(
                device: Handle, device_timestamp: *mut u64, host_timestamp: *mut u64
            );
            status clGetHostTimer(device: Handle, host_timestamp: *mut u64);

            // Contexts and queues.
            object clCreateContext(
                properties: *const isize, num_devices: u32, devices: Handles, notify: Callback,
                user_data: Out
            );
            object clCreateContextFromType(
                properties: *const isize, device_type: u64, notify: Callback, user_data: Out
            );
            retain clRetainContext(context: Handle);
            release clReleaseContext(context: Handle);
            query clGetContextInfo(context: Handle);
            object clCreateCommandQueue(context: Handle, device: Handle, properties: u64);
            object clCreateCommandQueueWithProperties(
                context: Handle, device: Handle, properties: *const u64
            );
            retain clRetainCommandQueue(queue: Handle);
            release clReleaseCommandQueue(queue: Handle);
            query clGetCommandQueueInfo(queue: Handle);

            // Memory objects.
            object clCreateBuffer(context: Handle, flags: u64, size: usize, host_ptr: Out);
            object clCreateSubBuffer(buffer: Handle, flags: u64, kind: u32, info: In);
            object clCreateImage2D(
                context: Handle, flags: u64, format: Out, width: usize, height: usize,
                row_pitch: usize, host_ptr: Out
            );
            object clCreateImage3D(
                context: Handle, flags: u64, format: Out, width: usize, height: usize, depth: usize,
                row_pitch: usize, slice_pitch: usize, host_ptr: Out
            );
            object clCreateImage(context: Handle, flags: u64, format: In, desc: In, host_ptr: Out);
            object clCreatePipe(
                context: Handle, flags: u64, pipe_packet_size: u32, pipe_max_packets: u32,
                properties: *const isize
            );
            retain clRetainMemObject(mem: Handle);
            release clReleaseMemObject(mem: Handle);
            status clGetSupportedImageFormats(
                context: Handle, flags: u64, image_type: u32, num_entries: u32, image_formats: Out,
                num_image_formats: *mut u32
            );
            query clGetMemObjectInfo(mem: Handle);
            query clGetImageInfo(image: Handle);
            query clGetPipeInfo(pipe: Handle);
            status clSetMemObjectDestructorCallback(mem: Handle, notify: Callback, user_data: Out);
            pointer clSVMAlloc(context: Handle, flags: u64, size: usize, alignment: u32);
            nothing clSVMFree(context: Handle, svm_pointer: Out);

            // Samplers.
            object clCreateSampler(
                context: Handle, normalize_coords: u32, addressing_mode: u32, filter_mode: u32
            );
            object clCreateSamplerWithProperties(context: Handle, normalized_coords: *const u64);
            retain clRetainSampler(sampler: Handle);
            release clReleaseSampler(sampler: Handle);
            query clGetSamplerInfo(sampler: Handle);

            // Programs.
            object clCreateProgramWithSource(
                context: Handle, count: u32, strings: *const Text, lengths: Sizes
            );
            object clCreateProgramWithBinary(
                context: Handle, num_devices: u32, devices: Handles, lengths: Sizes,
                binaries: *const *const u8, binary_status: *mut i32
            );
            object clCreateProgramWithBuiltInKernels(
                context: Handle, num_devices: u32, devices: Handles, kernel_names: Text
            );
            object clCreateProgramWithIL(context: Handle, il: In, length: usize);
            retain clRetainProgram(program: Handle);
            release clReleaseProgram(program: Handle);
            status clBuildProgram(
                program: Handle, num_devices: u32, devices: Handles, options: Text, notify: Callback,
                user_data: Out
            );
            status clUnloadCompiler();
            status clCompileProgram(
                program: Handle, num_devices: u32, devices: Handles, options: Text,
                num_input_headers: u32, input_headers: Handles, header_include_names: *const Text,
                notify: Callback, user_data: Out
            );
            object clLinkProgram(
                context: Handle, num_devices: u32, devices: Handles, options: Text,
                num_input_programs: u32, input_programs: Handles, notify: Callback, user_data: Out
            );
            query clGetProgramInfo(program: Handle);
            query clGetProgramBuildInfo(program: Handle, device: Handle);

            // Kernels.
            object clCreateKernel(program: Handle, kernel_name: Text);
            status clCreateKernelsInProgram(
                program: Handle, num_kernels: u32, kernels: *mut Handle, num_kernels_ret: *mut u32
            );
            object clCloneKernel(source_kernel: Handle);
            retain clRetainKernel(kernel: Handle);
            release clReleaseKernel(kernel: Handle);
            status clSetKernelArg(kernel: Handle, arg_index: u32, arg_size: usize, arg_value: In);
            status clSetKernelArgSVMPointer(kernel: Handle, arg_index: u32, arg_value: In);
            status clSetKernelExecInfo(kernel: Handle, param: u32, size: usize, value: In);
            query clGetKernelInfo(kernel: Handle);
            query clGetKernelArgInfo(kernel: Handle, arg_index: u32);
            query clGetKernelWorkGroupInfo(kernel: Handle, device: Handle);
            status clGetKernelSubGroupInfo(
                kernel: Handle, device: Handle, param: u32, input_value_size: usize, input_value: In,
                size: usize, value: Out, size_ret: *mut usize
            );

            // Events.
            status clWaitForEvents(num_events: u32, event_list: Handles);
            query clGetEventInfo(event: Handle);
            object clCreateUserEvent(context: Handle);
            retain clRetainEvent(event: Handle);
            release clReleaseEvent(event: Handle);
            status clSetUserEventStatus(event: Handle, execution_status: i32);
            status clSetEventCallback(
                event: Handle, callback_type: i32, notify: Callback, user_data: Out
            );
            query clGetEventProfilingInfo(event: Handle);

            // Commands.
            status clFlush(queue: Handle);
            status clFinish(queue: Handle);
            command clEnqueueReadBuffer(
                queue: Handle, buffer: Handle, blocking: u32, offset: usize, size: usize, ptr: Out
            );
            command clEnqueueReadBufferRect(
                queue: Handle, buffer: Handle, blocking: u32, buffer_origin: Sizes, host_origin: Sizes,
                region: Sizes, buffer_row_pitch: usize, buffer_slice_pitch: usize,
                host_row_pitch: usize, host_slice_pitch: usize, ptr: Out
            );
            command clEnqueueWriteBuffer(
                queue: Handle, buffer: Handle, blocking: u32, offset: usize, size: usize, ptr: In
            );
            command clEnqueueWriteBufferRect(
                queue: Handle, buffer: Handle, blocking: u32, buffer_origin: Sizes, host_origin: Sizes,
                region: Sizes, buffer_row_pitch: usize, buffer_slice_pitch: usize,
                host_row_pitch: usize, host_slice_pitch: usize, ptr: In
            );
            command clEnqueueFillBuffer(
                queue: Handle, buffer: Handle, pattern: In, pattern_size: usize, offset: usize,
                size: usize
            );
            command clEnqueueCopyBuffer(
                queue: Handle, src_buffer: Handle, dst_buffer: Handle, src_offset: usize,
                dst_offset: usize, size: usize
            );
            command clEnqueueCopyBufferRect(
                queue: Handle, src_buffer: Handle, dst_buffer: Handle, src_origin: Sizes,
                dst_origin: Sizes, region: Sizes, src_row_pitch: usize, src_slice_pitch: usize,
                dst_row_pitch: usize, dst_slice_pitch: usize
            );
            command clEnqueueReadImage(
                queue: Handle, image: Handle, blocking: u32, origin: Sizes, region: Sizes,
                row_pitch: usize, slice_pitch: usize, ptr: Out
            );
            command clEnqueueWriteImage(
                queue: Handle, image: Handle, blocking: u32, origin: Sizes, region: Sizes,
                row_pitch: usize, slice_pitch: usize, ptr: In
            );
            command clEnqueueFillImage(
                queue: Handle, image: Handle, fill_color: In, origin: Sizes, region: Sizes
            );
            command clEnqueueCopyImage(
                queue: Handle, src_image: Handle, dst_image: Handle, src_origin: Sizes,
                dst_origin: Sizes, region: Sizes
            );
            command clEnqueueCopyImageToBuffer(
                queue: Handle, src_image: Handle, dst_buffer: Handle, src_origin: Sizes, region: Sizes,
                dst_offset: usize
            );
            command clEnqueueCopyBufferToImage(
                queue: Handle, src_buffer: Handle, dst_image: Handle, src_offset: usize,
                dst_origin: Sizes, region: Sizes
            );
            object clEnqueueMapBuffer(
                queue: Handle, buffer: Handle, blocking: u32, map_flags: u64, offset: usize,
                size: usize, num_waits: u32, waits: Handles, event: *mut Handle
            );
            object clEnqueueMapImage(
                queue: Handle, image: Handle, blocking: u32, map_flags: u64, origin: Sizes,
                region: Sizes, row_pitch: *mut usize, slice_pitch: *mut usize, num_waits: u32,
                waits: Handles, event: *mut Handle
            );
            command clEnqueueUnmapMemObject(queue: Handle, mem: Handle, mapped_ptr: Out);
            command clEnqueueMigrateMemObjects(
                queue: Handle, num_mem_objects: u32, mem_objects: Handles, flags: u64
            );
            command clEnqueueNDRangeKernel(
                queue: Handle, kernel: Handle, work_dim: u32, global_offset: Sizes, global_size: Sizes,
                local_size: Sizes
            );
            command clEnqueueTask(queue: Handle, kernel: Handle);
            command clEnqueueNativeKernel(
                queue: Handle, user_func: Callback, args: Out, cb_args: usize, num_mem_objects: u32,
                mem_list: Handles, args_mem_loc: *const In
            );
            status clEnqueueMarker(queue: Handle, event: *mut Handle);
            command clEnqueueMarkerWithWaitList(queue: Handle);
            status clEnqueueWaitForEvents(queue: Handle, num_events: u32, event_list: *mut Handle);
            command clEnqueueBarrierWithWaitList(queue: Handle);
            command clEnqueueSVMFree(
                queue: Handle, num_svm_pointers: u32, svm_pointers: *const In, free: Callback,
                user_data: Out
            );
            command clEnqueueSVMMemcpy(
                queue: Handle, blocking: u32, dst_ptr: Out, src_ptr: In, size: usize
            );
            command clEnqueueSVMMemFill(
                queue: Handle, svm_ptr: Out, pattern: In, pattern_size: usize, size: usize
            );
            command clEnqueueSVMMap(
                queue: Handle, blocking: u32, flags: u64, svm_ptr: Out, size: usize
            );
            command clEnqueueSVMUnmap(queue: Handle, svm_ptr: Out);
            command clEnqueueSVMMigrateMem(
                queue: Handle, num_svm_pointers: u32, svm_pointers: *const In, sizes: Sizes, flags: u64
            );
            status clEnqueueBarrier(queue: Handle);

            // cl-sys declares the first without its result, which is harmless: a caller that does not expect a result
            // ignores the register that contains it.
            pointer clGetExtensionFunctionAddress(func_name: Text);
            pointer clGetExtensionFunctionAddressForPlatform(platform: Handle, func_name: Text);

            // Sharing with OpenGL.
            object clCreateFromGLBuffer(context: Handle, flags: u64, bufobj: u32);
            object clCreateFromGLTexture(
                context: Handle, flags: u64, texture_target: u32, miplevel: i32, texture: u32
            );
            status clGetGLObjectInfo(mem: Handle, gl_object_type: *mut u32, gl_object_name: *mut u32);
            query clGetGLTextureInfo(mem: Handle);
            object clCreateFromGLRenderbuffer(context: Handle, flags: u64, renderbuffer: u32);
            command clEnqueueAcquireGLObjects(queue: Handle, num_objects: u32, mem_objects: Handles);
            command clEnqueueReleaseGLObjects(queue: Handle, num_objects: u32, mem_objects: Handles);
            query clGetGLContextInfoKHR(properties: *const isize);
            object clCreateFromGLTexture2D(
                context: Handle, flags: u64, texture_target: u32, miplevel: i32, texture: u32
            );
            object clCreateFromGLTexture3D(
                context: Handle, flags: u64, texture_target: u32, miplevel: i32, texture: u32
            );
        }
    };
}

for_each_function!(forward);

#[cfg(test)]
pub(crate) use for_each_function;
